// Decoders of GGUF's block types without tables. Element i of a block is one expression of its bytes; products of a
// scale and a code are exact in f32, so that at most the last subtraction or addition rounds.
#include <bit>
#include <cstring>

#include "io/block_decode.h"
#include "io/block_type.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

// Of types of 32: the code of element i in 16 bytes, low nibbles first.
int nibble_of_32(const std::uint8_t* codes, int i) {
  return i < 16 ? codes[i] & 15 : codes[i - 16] >> 4;
}

// Bit i of a 32-bit word, as the fifth bit of a code.
int fifth_bit(const std::uint8_t* word, int i) {
  return (word[i / 8] >> (i % 8) & 1) << 4;
}

// Of K types: 2-bit code i of 64 bytes, of which 32 hold 128 codes in four layers.
int two_bits(const std::uint8_t* codes, int i) {
  return codes[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3;
}

// 4-bit code i of 128 bytes, of which 32 hold 64 codes in two layers.
int four_bits(const std::uint8_t* codes, int i) {
  return codes[i / 64 * 32 + i % 32] >> (4 * (i % 64 / 32)) & 15;
}

// The 6-bit scales and minima of Q4_K and Q5_K: eight of each in 12 bytes.
struct ScaleAndMinimum {
  int scale;
  int minimum;
};
ScaleAndMinimum six_bits(const std::uint8_t* packed, int group) {
  if (group < 4) return {packed[group] & 63, packed[group + 4] & 63};
  return {(packed[group + 4] & 15) | (packed[group - 4] >> 6) << 4, packed[group + 4] >> 4 | (packed[group] >> 6) << 4};
}

// An unsigned float of 4 exponent and 3 mantissa bits, halved: codes of NVFP4 are doubled.
float half_of_e4m3(std::uint8_t bits) {
  if (bits == 0 || bits == 0x7f) return 0;
  const int exponent = bits >> 3 & 15;
  const float mantissa = static_cast<float>(bits & 7);
  if (exponent == 0) return mantissa * 0x1p-10f;
  return (1.0f + mantissa / 8.0f) * std::bit_cast<float>(static_cast<std::uint32_t>(exponent - 8 + 127) << 23);
}

// 2^(bits - 128), half of what an E8M0 scale means: codes of MXFP4 are doubled.
float half_of_e8m0(std::uint8_t bits) {
  return std::bit_cast<float>(bits < 2 ? 0x00200000u << bits : static_cast<std::uint32_t>(bits - 1) << 23);
}

constexpr float kFp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
constexpr float kIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

}  // namespace

void decode_q4_0(const std::uint8_t* block, float* values) {
  const float scale = half_at(block);
  for (int i = 0; i < 32; ++i) values[i] = scale * real(nibble_of_32(block + 2, i) - 8);
}

void decode_q4_1(const std::uint8_t* block, float* values) {
  const float scale = half_at(block);
  const float minimum = half_at(block + 2);
  for (int i = 0; i < 32; ++i) values[i] = scale * real(nibble_of_32(block + 4, i)) + minimum;
}

void decode_q5_0(const std::uint8_t* block, float* values) {
  const float scale = half_at(block);
  for (int i = 0; i < 32; ++i) {
    values[i] = scale * real((nibble_of_32(block + 6, i) | fifth_bit(block + 2, i)) - 16);
  }
}

void decode_q5_1(const std::uint8_t* block, float* values) {
  const float scale = half_at(block);
  const float minimum = half_at(block + 2);
  for (int i = 0; i < 32; ++i) {
    values[i] = scale * real(nibble_of_32(block + 8, i) | fifth_bit(block + 4, i)) + minimum;
  }
}

void decode_q8_0(const std::uint8_t* block, float* values) {
  const float scale = half_at(block);
  for (int i = 0; i < 32; ++i) values[i] = scale * real(static_cast<std::int8_t>(block[2 + i]));
}

void decode_q2_k(const std::uint8_t* block, float* values) {
  const float scale = half_at(block + 80);
  const float minimum = half_at(block + 82);
  for (int i = 0; i < kSuper; ++i) {
    const int both = block[i / 16];
    values[i] = scale * real(both & 15) * real(two_bits(block + 16, i)) - minimum * real(both >> 4);
  }
}

void decode_q3_k(const std::uint8_t* block, float* values) {
  const std::uint8_t* scales = block + 96;
  const float scale = half_at(block + 108);
  for (int i = 0; i < kSuper; ++i) {
    const int group = i / 16;
    const int low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
    const int high = scales[8 + group % 4] >> (2 * (group / 4)) & 3;
    const int code = two_bits(block + 32, i) - ((block[i % 32] >> (i / 32) & 1) != 0 ? 0 : 4);
    values[i] = scale * real((low | high << 4) - 32) * real(code);
  }
}

void decode_q4_k(const std::uint8_t* block, float* values) {
  const float scale = half_at(block);
  const float minimum = half_at(block + 2);
  for (int i = 0; i < kSuper; ++i) {
    const ScaleAndMinimum group = six_bits(block + 4, i / 32);
    values[i] = scale * real(group.scale) * real(four_bits(block + 16, i)) - minimum * real(group.minimum);
  }
}

void decode_q5_k(const std::uint8_t* block, float* values) {
  const float scale = half_at(block);
  const float minimum = half_at(block + 2);
  for (int i = 0; i < kSuper; ++i) {
    const ScaleAndMinimum group = six_bits(block + 4, i / 32);
    const int code = four_bits(block + 48, i) | (block[16 + i % 32] >> (i / 32) & 1) << 4;
    values[i] = scale * real(group.scale) * real(code) - minimum * real(group.minimum);
  }
}

void decode_q6_k(const std::uint8_t* block, float* values) {
  const float scale = half_at(block + 208);
  for (int i = 0; i < kSuper; ++i) {
    const int low = block[i / 128 * 64 + i % 64] >> (4 * (i % 128 / 64)) & 15;
    const int code = (low | two_bits(block + 128, i) << 4) - 32;
    values[i] = scale * real(static_cast<std::int8_t>(block[192 + i / 16])) * real(code);
  }
}

// Five ternary digits a byte, the leading one first: a byte times 3^n has digit n in front.
void decode_tq1_0(const std::uint8_t* block, float* values) {
  constexpr std::uint8_t kPowers[5] = {1, 3, 9, 27, 81};
  const float scale = half_at(block + 52);
  const auto digit = [&](int byte, int n) {
    return real((static_cast<std::uint8_t>(block[byte] * kPowers[n]) * 3 >> 8) - 1);
  };
  for (int i = 0; i < kSuper; ++i) {
    if (i < 160) values[i] = scale * digit(i % 32, i / 32);
    if (i >= 160 && i < 240) values[i] = scale * digit(32 + i % 16, (i - 160) / 16);
    if (i >= 240) values[i] = scale * digit(48 + i % 4, (i - 240) / 4);
  }
}

void decode_tq2_0(const std::uint8_t* block, float* values) {
  const float scale = half_at(block + 64);
  for (int i = 0; i < kSuper; ++i) values[i] = scale * real(two_bits(block, i) - 1);
}

void decode_q1_0(const std::uint8_t* block, float* values) {
  const float scale = half_at(block);
  for (int i = 0; i < 128; ++i) values[i] = (block[2 + i / 8] >> (i % 8) & 1) != 0 ? scale : -scale;
}

void decode_q2_0(const std::uint8_t* block, float* values) {
  const float scale = half_at(block);
  for (int i = 0; i < 64; ++i) values[i] = scale * real((block[2 + i / 4] >> (2 * (i % 4)) & 3) - 1);
}

void decode_mxfp4(const std::uint8_t* block, float* values) {
  const float scale = half_of_e8m0(block[0]);
  for (int i = 0; i < 32; ++i) values[i] = scale * kFp4[nibble_of_32(block + 1, i)];
}

void decode_nvfp4(const std::uint8_t* block, float* values) {
  for (int i = 0; i < 64; ++i) {
    const int byte = block[4 + i / 16 * 8 + i % 8];
    values[i] = half_of_e4m3(block[i / 16]) * kFp4[i % 16 < 8 ? byte & 15 : byte >> 4];
  }
}

void decode_iq4_nl(const std::uint8_t* block, float* values) {
  const float scale = half_at(block);
  for (int i = 0; i < 32; ++i) values[i] = scale * kIq4[nibble_of_32(block + 2, i)];
}

void decode_iq4_xs(const std::uint8_t* block, float* values) {
  const float scale = half_at(block);
  const int high_bits = word_at(block + 2);
  for (int i = 0; i < kSuper; ++i) {
    const int group = i / 32;
    const int low = block[4 + group / 2] >> (4 * (group % 2)) & 15;
    const int factor = (low | (high_bits >> (2 * group) & 3) << 4) - 32;
    values[i] = scale * real(factor) * kIq4[nibble_of_32(block + 8 + group * 16, i % 32)];
  }
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
