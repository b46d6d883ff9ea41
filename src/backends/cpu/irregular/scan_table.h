// The loops of scans, compiled once per instruction set, on dense arrays of a compute type. The order is that of
// docs/numerics.md section 5; extrema are exact and take any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/isa.h"
#include "backends/cpu/row/tables.h"
#include "kernels/kernel.h"
#include "kernels/order.h"

namespace lockstep {
inline namespace v0 {

inline constexpr std::int64_t kScanLane = order::kScanLane;  ///< consecutive elements
inline constexpr std::int64_t kScanChunk = order::kChunk;

struct ScanTable {
  /// A chunk of a row, 0 < n <= kScanChunk: out[i] = canonical(prefix op x[0] op ... op x[i]), *total = x[0] op ... op
  /// x[n - 1] (extrema: with the prefix). `prefix` and `out` may be null. out is not x.
  using ChunkFn = void (*)(void* out, const void* x, std::size_t n, const void* prefix, void* total);
  /// out[i] = a[i] op b[i]. out may be a or b.
  using CombineFn = void (*)(void* out, const void* a, const void* b, std::size_t n);
  /// One element of each of n columns: local[t] = local[t] op x[t], out[t] = canonical(prefix[t] op local[t]).
  /// `prefix` may be null; `starts`: local[t] = x[t].
  using StepFn = void (*)(void* out, void* local, const void* x, const void* prefix, bool starts, std::size_t n);
  /// out[i] = the position of the first winner, x[0] being at `first` and *best at *position; both are updated.
  /// `out` may be null.
  using PositionsFn = void (*)(std::int64_t* out, const void* x, std::size_t n, std::int64_t first, void* best,
                               std::int64_t* position);

  enum Op { sum, prod, max, min, ops };
  std::array<std::array<ChunkFn, kComputeTypes>, ops> chunk;
  std::array<std::array<CombineFn, kComputeTypes>, ops> combine;
  std::array<std::array<StepFn, kComputeTypes>, ops> step;
  std::array<std::array<PositionsFn, kComputeTypes>, ops> positions;  ///< max, min
};

const ScanTable& scan_table(Isa isa);

}  // namespace v0
}  // namespace lockstep
