// How blocks of 32 elements hold their codes and f16 numbers, for those who write them.
#pragma once

#include <cstdint>
#include <cstring>

#include <lockstep/dtype.h>

namespace lockstep {
inline namespace v0 {
namespace io {

constexpr int kShortBlock = 32;

inline void put_half(std::uint8_t* bytes, float value) {
  const std::uint16_t bits = to_f16(value).bits;
  std::memcpy(bytes, &bits, sizeof bits);
}

/// The lower four bits of 32 codes: a byte holds one of the first 16 and, above it, one of the others.
inline void put_nibbles(std::uint8_t* bytes, const int* codes) {
  for (int i = 0; i < kShortBlock / 2; ++i) {
    bytes[i] = static_cast<std::uint8_t>((codes[i] & 15) | (codes[i + kShortBlock / 2] & 15) << 4);
  }
}

/// Bit 4 of 32 codes, one after the other.
inline void put_fifth_bits(std::uint8_t* bytes, const int* codes) {
  for (int byte = 0; byte < kShortBlock / 8; ++byte) {
    int bits = 0;
    for (int i = 0; i < 8; ++i) bits |= (codes[byte * 8 + i] >> 4 & 1) << i;
    bytes[byte] = static_cast<std::uint8_t>(bits);
  }
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
