// Hashes of a function's results over many inputs, to compare instruction sets, compilers and devices: equal hashes,
// equal bits. The sum does not depend on the order, so any split of the range adds up to the same value.
#pragma once

#include <cstdint>

#include "kernels/prelude.h"

namespace lockstep {
inline namespace v0 {

/// What result `bits` of input `input` adds to the hash.
inline std::uint64_t hash_of_result(std::uint32_t input, std::uint32_t bits) {
  std::uint64_t hash =
      std::uint64_t{bits} * 0x9e3779b97f4a7c15U + (std::uint64_t{input} << 32 | input) * 0xc2b2ae3d27d4eb4fU;
  hash ^= hash >> 29;
  hash *= 0xbf58476d1ce4e5b9U;
  return hash ^ (hash >> 32);
}

/// The hash of function(x) over the floats whose bits are first, first + step, ... below `end`. Subnormal inputs are
/// left out: they are no operands.
template <typename Function>
std::uint64_t hash_results(Function function, std::uint64_t first, std::uint64_t end, std::uint64_t step = 1) {
  std::uint64_t sum = 0;
  for (std::uint64_t i = first; i < end; i += step) {
    const std::uint32_t magnitude = static_cast<std::uint32_t>(i) & 0x7fffffffU;
    if (magnitude != 0 && magnitude < 0x00800000U) continue;
    sum += hash_of_result(static_cast<std::uint32_t>(i), BITS(function(FROM_BITS(i))));
  }
  return sum;
}

}  // namespace v0
}  // namespace lockstep
