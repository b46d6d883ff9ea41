// How the decoders of block types read the bytes of a block: little-endian, at any address.
#pragma once

#include <cstdint>
#include <cstring>

#include <lockstep/dtype.h>

namespace lockstep {
inline namespace v0 {
namespace io {

constexpr int kSuper = 256;  ///< elements of a block that consists of smaller ones

inline float real(int value) {
  return static_cast<float>(value);
}

inline std::uint16_t word_at(const std::uint8_t* bytes) {
  std::uint16_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

inline std::uint32_t long_word_at(const std::uint8_t* bytes) {
  std::uint32_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

/// The f16 there.
inline float half_at(const std::uint8_t* bytes) {
  return to_f32(Float16{word_at(bytes)});
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
