// The inner loops of a contraction for one compute type and instruction set, as the ways call them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/contraction/direct.h"
#include "backends/cpu/contraction/lines.h"
#include "backends/cpu/contraction/padded_copy.h"
#include "backends/cpu/contraction/panels.h"
#include "backends/cpu/contraction/thin.h"
#include "backends/cpu/isa.h"
#include "kernels/order.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

/// A panel of elements has one word of them for each k.
constexpr std::int64_t words_of_elements(std::int64_t k) {
  return k;
}

struct KernelSet {
  int lanes = 1;
  int tile_rows = 1;
  int tile_columns = 1;
  std::size_t element_size = 4;                                      ///< of results, and of the words of panels
  std::int64_t (*panel_words)(std::int64_t k) = &words_of_elements;  ///< per lane of a panel that holds k
  void (*pack_rows)(const PackArgs&) = nullptr;
  void (*pack_columns)(const PackArgs&) = nullptr;
  void (*pack_lanes)(const PackArgs&) = nullptr;  ///< columns, in panels of one vector; f32 only
  void (*multiply)(const MultiplyArgs&) = nullptr;
  /// Columns in half as many bytes, strides still counted in words; null where there is no such form. `halve` makes
  /// them of `count` words, unless there is one that does not fit.
  void (*multiply_halves)(const MultiplyArgs&) = nullptr;
  bool (*halve)(const std::int32_t* words, std::int64_t count, std::int16_t* halves) = nullptr;
  CopyFunction copy = nullptr;      ///< f32 on vector instruction sets, otherwise null
  ThinFunction thin = nullptr;      ///< f32 on vector instruction sets, otherwise null
  LineFunction lines = nullptr;     ///< f32 on vector instruction sets, otherwise null
  DirectFunction direct = nullptr;  ///< f32 on vector instruction sets, otherwise null
};

/// Whether the processor has AVX-512 VNNI, which Isa::avx512 does not promise.
bool has_vnni();

struct KernelSets {
  KernelSet f32, f64, i32, i64;
};
const KernelSets& kernel_sets(Isa isa);
const KernelSet& kernel_set(ComputeType type, Isa isa);

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
