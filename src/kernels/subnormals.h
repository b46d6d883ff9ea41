// Looks through elements for subnormals, so that the others need no look at each of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/assert.h"
#include "core/elements.h"

namespace lockstep {
inline namespace v0 {

/// Whether any of `count` elements, each a Word, is not canonical (kernels/storage.h).
template <typename Word> bool has_subnormals(DType dtype, const std::byte* data, std::size_t count) {
  LOCKSTEP_ASSERT(sizeof(Word) == size_of(dtype));
  constexpr auto kMagnitude = static_cast<Word>(static_cast<Word>(~Word{0}) >> 1);
  const auto smallest_normal = static_cast<Word>(Word{1} << (limits_of(dtype).digits - 1));
  bool found = false;
  // Without early exit in the inner loop, so that it vectorises.
  for (std::size_t start = 0; start < count && !found; start += 4096) {
    Word any = 0;
    for (std::size_t i = start; i < std::min(count, start + 4096); ++i) {
      Word bits;
      std::memcpy(&bits, data + sizeof bits * i, sizeof bits);
      any = static_cast<Word>(any | (static_cast<Word>((bits & kMagnitude) - 1u) < smallest_normal));
    }
    found = any != 0;
  }
  return found;
}
/// The same of any dtype.
inline bool has_subnormals(DType dtype, const std::byte* data, std::size_t count) {
  if (!zeroes_subnormals(dtype)) return false;
  return size_of(dtype) == 4 ? has_subnormals<std::uint32_t>(dtype, data, count)
                             : has_subnormals<std::uint16_t>(dtype, data, count);
}

}  // namespace v0
}  // namespace lockstep
