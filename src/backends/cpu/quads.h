// Words in registers that every processor has, four at a time: squares of four by four turned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lockstep {
inline namespace v0 {

inline constexpr std::int64_t kQuad = 4;

/// Four rows of four 32-bit words, `from_stride` bytes apart, become four columns: rows that are `to_stride` bytes
/// apart.
inline void transpose_quad(const std::byte* from, std::int64_t from_stride, std::byte* to, std::int64_t to_stride) {
  using Quad = std::uint32_t __attribute__((vector_size(16)));
  using Pairs = std::uint64_t __attribute__((vector_size(16)));
  Quad row[kQuad];
  for (std::int64_t i = 0; i < kQuad; ++i) std::memcpy(&row[i], from + i * from_stride, sizeof(Quad));
  const auto low01 = reinterpret_cast<Pairs>(__builtin_shufflevector(row[0], row[1], 0, 4, 1, 5));
  const auto high01 = reinterpret_cast<Pairs>(__builtin_shufflevector(row[0], row[1], 2, 6, 3, 7));
  const auto low23 = reinterpret_cast<Pairs>(__builtin_shufflevector(row[2], row[3], 0, 4, 1, 5));
  const auto high23 = reinterpret_cast<Pairs>(__builtin_shufflevector(row[2], row[3], 2, 6, 3, 7));
  const Pairs column[kQuad] = {__builtin_shufflevector(low01, low23, 0, 2), __builtin_shufflevector(low01, low23, 1, 3),
                               __builtin_shufflevector(high01, high23, 0, 2),
                               __builtin_shufflevector(high01, high23, 1, 3)};
  for (std::int64_t i = 0; i < kQuad; ++i) std::memcpy(to + i * to_stride, &column[i], sizeof(Pairs));
}

}  // namespace v0
}  // namespace lockstep
