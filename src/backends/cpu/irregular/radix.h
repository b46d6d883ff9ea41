// The stable permutation that sorts one array by the key of docs/numerics.md section 4.
//
// Keys are made small (the least one is subtracted) and packed with their index into one word where both fit, so that
// words in order are the stable order. Few of them are sorted by comparisons, many by counting their digits, lowest
// digit first; over several threads each counts and moves a part of the array of its own.
#pragma once

#include <cstdint>

#include "backends/cpu/memory_pool.h"
#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {

struct SortOptions {
  bool descending = false;
  int dropped_bits = 0;  ///< of the keys, which are the same in all
  int threads = 1;       ///< how many parts; 1 inside parallel regions
};

/// The lower bits of f32 keys that tell no two values of a narrower float apart.
int dropped_key_bits(DType dtype);

/// out[i * stride] = the position in x[0..n) of the element that comes i-th. T is a compute type.
template <typename T>
void sort_positions(const T* x, std::int64_t n, const SortOptions& options, MemoryPool& memory, std::int64_t* out,
                    std::int64_t stride);

}  // namespace irregular
}  // namespace v0
}  // namespace lockstep
