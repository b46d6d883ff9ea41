// The loop of pools of the largest element (pool.cpp): one line of results at a time, its taps innermost.
#pragma once

#include <cstdint>

#include "backends/cpu/isa.h"

namespace lockstep {
inline namespace v0 {

/// A tap of a line of windows: result i in [begin, end) sees from[i * stride]; the others see nothing there.
struct PoolTap {
  const float* from = nullptr;
  std::int64_t begin = 0, end = 0;
};

struct PoolTable {
  /// out[i], i < n: the first winner of its taps (docs/numerics.md section 4), -infinity without any. `stride`: 1, 2
  /// or 4. `flush`: subnormal elements read as zero.
  using Fn = void (*)(float* out, std::int64_t n, const PoolTap* taps, std::int64_t count, std::int64_t stride,
                      bool flush);
  Fn largest = nullptr;
};

const PoolTable& pool_table(Isa isa);

}  // namespace v0
}  // namespace lockstep
