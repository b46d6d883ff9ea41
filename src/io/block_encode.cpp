// Encoders of the block types of 32 elements: a scale from the extreme values, then the nearest codes.
#include "io/block_encode.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include <lockstep/dtype.h>
#include <lockstep/error.h>

#include "core/assert.h"
#include "core/fp_state.h"
#include "io/block_layout.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

constexpr int kBlock = kShortBlock;

// 0 stands for "all codes are those of zero".
float inverse_of(float scale) {
  const float inverse = scale == 0 ? 0.0f : 1.0f / scale;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

// The first of the largest magnitudes, with its sign: it gets the code that only one sign has.
float extreme_of(const float* values) {
  return *std::max_element(values, values + kBlock, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
}

struct CodeRange {
  float scale;
  float minimum;
};
CodeRange range_of(const float* values, float largest_code) {
  const float minimum = *std::min_element(values, values + kBlock);
  const float maximum = *std::max_element(values, values + kBlock);
  return {(maximum - minimum) / largest_code, minimum};
}

// Two statements, so that no compiler makes one rounding of them.
int rounded_code(float value, float inverse, float offset, int largest) {
  const float scaled = value * inverse;
  const float shifted = scaled + offset;
  return std::clamp(static_cast<int>(shifted), 0, largest);
}

void symmetric_codes(const float* values, float inverse, int half, int* codes) {
  for (int i = 0; i < kBlock; ++i) {
    codes[i] = rounded_code(values[i], inverse, static_cast<float>(half) + 0.5f, 2 * half - 1);
  }
}

void codes_above(const float* values, CodeRange range, int largest, int* codes) {
  const float inverse = inverse_of(range.scale);
  for (int i = 0; i < kBlock; ++i) {  // without a scale differences may be infinite, and times 0 no number
    codes[i] = inverse == 0 ? 0 : rounded_code(values[i] - range.minimum, inverse, 0.5f, largest);
  }
}

// 2^(bits - 128), what a code of MXFP4 is multiplied by; its table holds doubled values.
float unit_of_e8m0(int bits) {
  return std::bit_cast<float>(bits < 2 ? 0x00200000u << bits : static_cast<std::uint32_t>(bits - 1) << 23);
}

constexpr float kDoubledE2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// The first of the nearest.
int nearest_e2m1(float value, float unit) {
  const auto distance = [&](float code) { return std::fabs(unit * code - value); };
  const float* best = std::min_element(std::begin(kDoubledE2m1), std::end(kDoubledE2m1),
                                       [&](float a, float b) { return distance(a) < distance(b); });
  return static_cast<int>(best - kDoubledE2m1);
}

}  // namespace

void encode_q4_0(const float* values, std::uint8_t* block) {
  const float scale = extreme_of(values) / -8.0f;
  int codes[kBlock];
  symmetric_codes(values, inverse_of(scale), 8, codes);
  put_half(block, scale);
  put_nibbles(block + 2, codes);
}

void encode_q4_1(const float* values, std::uint8_t* block) {
  const CodeRange range = range_of(values, 15.0f);
  int codes[kBlock];
  codes_above(values, range, 15, codes);
  put_half(block, range.scale);
  put_half(block + 2, range.minimum);
  put_nibbles(block + 4, codes);
}

void encode_q5_0(const float* values, std::uint8_t* block) {
  const float scale = extreme_of(values) / -16.0f;
  int codes[kBlock];
  symmetric_codes(values, inverse_of(scale), 16, codes);
  put_half(block, scale);
  put_fifth_bits(block + 2, codes);
  put_nibbles(block + 6, codes);
}

void encode_q5_1(const float* values, std::uint8_t* block) {
  const CodeRange range = range_of(values, 31.0f);
  int codes[kBlock];
  codes_above(values, range, 31, codes);
  put_half(block, range.scale);
  put_half(block + 2, range.minimum);
  put_fifth_bits(block + 4, codes);
  put_nibbles(block + 8, codes);
}

void encode_q8_0(const float* values, std::uint8_t* block) {
  const float scale = std::fabs(extreme_of(values)) / 127.0f;
  const float inverse = inverse_of(scale);
  put_half(block, scale);
  for (int i = 0; i < kBlock; ++i) {
    block[2 + i] = static_cast<std::uint8_t>(static_cast<int>(std::round(values[i] * inverse)));  // halves away from 0
  }
}

// The exponent is that of the logarithm rounded to f32, as ggml has it: just below a power of two it is that power's.
void encode_mxfp4(const float* values, std::uint8_t* block) {
  const float largest = std::fabs(extreme_of(values));
  int exponent = 0;
  if (largest > 0) {
    const auto logarithm = static_cast<float>(std::log2(static_cast<double>(largest)));
    exponent = std::max(static_cast<int>(std::floor(logarithm)) - 2 + 127, 0);
  }
  int codes[kBlock];
  for (int i = 0; i < kBlock; ++i) codes[i] = nearest_e2m1(values[i], unit_of_e8m0(exponent));
  block[0] = static_cast<std::uint8_t>(exponent);
  put_nibbles(block + 1, codes);
}

namespace {

std::string names_of_encoders() {
  std::string names;
  for (const BlockType& type : block_types()) {
    if (type.encode != nullptr) names.append(names.empty() ? "" : ", ").append(type.name);
  }
  return names;
}

}  // namespace

void encode_blocks(const BlockType& type, std::span<const float> values, std::span<std::byte> blocks) {
  if (type.encode == nullptr) {
    throw ValueError("no quantiser writes blocks of " + std::string(type.name) + "; there are those of " +
                     names_of_encoders());
  }
  const std::size_t count = values.size() / type.elements;
  LOCKSTEP_ASSERT(values.size() == count * type.elements && blocks.size() == count * type.bytes);
  const auto bad = std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  if (bad != values.end()) {
    throw ValueError(std::string(type.name) + " holds finite values; element " + std::to_string(bad - values.begin()) +
                     " is " + std::to_string(*bad));
  }
  const auto fail_at = [&](std::size_t i) {
    throw ValueError("values of elements " + std::to_string(i * type.elements) + " to " +
                     std::to_string((i + 1) * type.elements - 1) + " are too large for the f16 scale of " +
                     std::string(type.name));
  };
  // Beyond what any f16 scale reaches; sums over products of such values might overflow.
  constexpr float kBeyond = 1e9f;
  const FloatingPointScope scope;
  for (std::size_t i = 0; i < count; ++i) {
    const auto own = values.subspan(i * type.elements, type.elements);
    const bool reached = std::all_of(own.begin(), own.end(), [](float value) { return std::fabs(value) <= kBeyond; });
    if (type.encoded_halves > 0 && !reached) fail_at(i);
    auto* block = reinterpret_cast<std::uint8_t*>(blocks.data()) + i * type.bytes;
    type.encode(values.data() + i * type.elements, block);
    for (std::uint32_t half = 0; half < type.encoded_halves; ++half) {
      std::uint16_t bits;
      std::memcpy(&bits, block + type.halves_at + 2 * half, sizeof bits);
      if ((bits & 0x7c00u) == 0x7c00u) fail_at(i);
    }
  }
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
