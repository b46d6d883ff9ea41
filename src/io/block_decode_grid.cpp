// Decoders of the IQ types: groups of 4 or 8 values are entries of a table that is part of the format. Products of a
// scale and an entry are exact in f32.
#include <bit>

#include "io/block_decode.h"
#include "io/block_grids.h"
#include "io/block_type.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

constexpr float kGrid2[4] = {8, 25, 43, 0};
constexpr float kGrid3[8] = {4, 12, 20, 28, 36, 44, 52, 62};

// Element i of an entry of eight 2-bit fields, or of four fields of 4 bits.
int field2(std::uint16_t entry, int i) {
  return entry >> (2 * i) & 3;
}
int field4(std::uint16_t entry, int i) {
  return entry >> (4 * i) & 15;
}

// Seven sign bits; the eighth makes their number even.
int even_signs(unsigned bits) {
  bits &= 127;
  return static_cast<int>(bits | static_cast<unsigned>(std::popcount(bits) & 1) << 7);
}
float signed_by(float value, int signs, int i) {
  return (signs >> i & 1) != 0 ? -value : value;
}

int nibble(const std::uint8_t* bytes, int i) {
  return bytes[i / 2] >> (4 * (i % 2)) & 15;
}

}  // namespace

void decode_iq2_xxs(const std::uint8_t* block, float* values) {
  const float scale = half_at(block);
  for (int i = 0; i < kSuper; ++i) {
    const std::uint8_t* group = block + 2 + i / 32 * 8;
    const std::uint32_t word = long_word_at(group + 4);
    const int part = i % 32 / 8;
    const float factor = scale * (0.5f + real(static_cast<int>(word >> 28))) * 0.25f;
    const float value = factor * kGrid2[field2(kGridIq2Xxs[group[part]], i % 8)];
    values[i] = signed_by(value, even_signs(word >> (7 * part)), i % 8);
  }
}

void decode_iq2_xs(const std::uint8_t* block, float* values) {
  const float scale = half_at(block);
  for (int i = 0; i < kSuper; ++i) {
    const unsigned code = word_at(block + 2 + i / 8 * 2);
    const float factor = scale * (0.5f + real(nibble(block + 66, i / 16))) * 0.25f;
    values[i] = signed_by(factor * kGrid2[field2(kGridIq2Xs[code & 511], i % 8)], even_signs(code >> 9), i % 8);
  }
}

void decode_iq2_s(const std::uint8_t* block, float* values) {
  const float scale = half_at(block);
  for (int i = 0; i < kSuper; ++i) {
    const int part = i / 8;
    const int code = block[2 + part] | (block[66 + part / 4] >> (2 * (part % 4)) & 3) << 8;
    const float factor = scale * (0.5f + real(nibble(block + 74, i / 16))) * 0.25f;
    values[i] = signed_by(factor * kGrid2[field2(kGridIq2S[code], i % 8)], block[34 + part], i % 8);
  }
}

void decode_iq3_xxs(const std::uint8_t* block, float* values) {
  const float scale = half_at(block);
  for (int i = 0; i < kSuper; ++i) {
    const std::uint32_t word = long_word_at(block + 66 + i / 32 * 4);
    const float factor = scale * (0.5f + real(static_cast<int>(word >> 28))) * 0.5f;
    const float value = factor * kGrid3[field4(kGridIq3Xxs[block[2 + i / 4]], i % 4)];
    values[i] = signed_by(value, even_signs(word >> (7 * (i % 32 / 8))), i % 8);
  }
}

void decode_iq3_s(const std::uint8_t* block, float* values) {
  const float scale = half_at(block);
  for (int i = 0; i < kSuper; ++i) {
    const int part = i / 4;
    const int code = block[2 + part] | (block[66 + part / 8] >> (part % 8) & 1) << 8;
    const float factor = scale * real(1 + 2 * nibble(block + 106, i / 32));
    values[i] = signed_by(factor * real(1 + 2 * field4(kGridIq3S[code], i % 4)), block[74 + i / 8], i % 8);
  }
}

void decode_iq1_s(const std::uint8_t* block, float* values) {
  const float scale = half_at(block);
  for (int i = 0; i < kSuper; ++i) {
    const int word = word_at(block + 34 + i / 32 * 2);
    const int part = i / 8;
    const int code = block[2 + part] | (word >> (3 * (part % 4)) & 7) << 8;
    const float shift = (word & 0x8000) != 0 ? -0.125f : 0.125f;
    values[i] = scale * real(2 * (word >> 12 & 7) + 1) * (real(field2(kGridIq1[code], i % 8) - 1) + shift);
  }
}

// The f16 scale lies in the highest four bits of four words of scales.
void decode_iq1_m(const std::uint8_t* block, float* values) {
  const std::uint8_t* scales = block + 48;
  unsigned bits = 0;
  for (int i = 0; i < 4; ++i) bits |= static_cast<unsigned>(word_at(scales + 2 * i) >> 12) << (4 * i);
  const float scale = to_f32(Float16{static_cast<std::uint16_t>(bits)});
  for (int i = 0; i < kSuper; ++i) {
    const int part = i / 8;
    const int high = nibble(block + 32, part);
    const int group = word_at(scales + i / 64 * 2) >> (3 * (i % 64 / 16)) & 7;
    const float shift = (high & 8) != 0 ? -0.125f : 0.125f;
    const int entry = field2(kGridIq1[block[part] | (high & 7) << 8], i % 8);
    values[i] = scale * real(2 * group + 1) * (real(entry - 1) + shift);
  }
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
