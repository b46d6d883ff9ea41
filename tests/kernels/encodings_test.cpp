// The values of packed blocks: what the gguf package reads from them, and the definition for every scale and code.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include <lockstep/io/safetensors.h>

#include "core/fp_state.h"
#include "kernels/storage.h"
#include "support/data.h"

namespace lockstep {
namespace {

constexpr Encoding kEncodings[] = {
#define ENCODING(name, ...) Encoding::name,
#include <lockstep/encodings.def>
#undef ENCODING
};

TEST(Encodings, ValuesAreThoseOfTheGgufPackage) {
  const io::TensorFile file = io::load_safetensors(test::repository_data("packed.safetensors").string());
  for (const Encoding encoding : kEncodings) {
    const EncodingInfo& info = info_of(encoding);
    const std::string name(info.name);
    const std::vector<std::uint8_t> blocks = file.tensors.at(name + ".blocks").to_vector<std::uint8_t>();
    const std::vector<float> values = file.tensors.at(name + ".values").to_vector<float>();
    ASSERT_EQ(blocks.size() / info.bytes, values.size() / static_cast<std::size_t>(info.elements));
    ASSERT_GT(values.size(), 1000u);
    int numbers = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto word = static_cast<std::uint32_t>(load_word(
          encoding, info.dtype, reinterpret_cast<const std::byte*>(blocks.data()), static_cast<std::int64_t>(i)));
      const std::uint32_t given = std::bit_cast<std::uint32_t>(values[i]);
      const bool tiny = (given & 0x7fffffffu) <= 0x00800000u;  // canonical: the zero of its sign
      const std::uint32_t expected = std::isnan(values[i]) ? 0x7fc00000u : tiny ? given & 0x80000000u : given;
      ASSERT_EQ(word, expected) << name << " element " << i << ": " << values[i];
      numbers += std::isfinite(values[i]);
    }
    EXPECT_GT(numbers, 1000);
  }
}

// value = f32(scale) * code, exact; so it holds no subnormal, and every NaN is the one NaN.
TEST(Encodings, ExhaustiveQ8_0IsItsDefinition) {
  const FloatingPointScope scope;
  std::byte block[34];
  for (std::uint32_t scale = 0; scale < 0x10000u; ++scale) {
    const auto half = static_cast<std::uint16_t>(scale);
    std::memcpy(block, &half, 2);
    const double factor = to_f32(Float16{half});
    for (int first = -128; first < 128; first += 32) {
      for (int i = 0; i < 32; ++i) block[2 + i] = static_cast<std::byte>(first + i);
      for (int i = 0; i < 32; ++i) {
        const auto word = static_cast<std::uint32_t>(load_word(Encoding::q8_0, DType::f32, block, i));
        const double product = factor * (first + i);
        const std::uint32_t expected =
            std::isnan(product) ? 0x7fc00000u : std::bit_cast<std::uint32_t>(static_cast<float>(product));
        ASSERT_EQ(word, expected) << "scale " << scale << ", code " << first + i;
        ASSERT_TRUE(is_canonical(DType::f32, word)) << "scale " << scale << ", code " << first + i;
        ASSERT_TRUE(!std::isfinite(product) || static_cast<double>(std::bit_cast<float>(word)) == product);
      }
    }
  }
}

constexpr Encoding kFloats[] = {
#define ENCODING(...)
#define FLOATS(name, ...) Encoding::name,
#include <lockstep/encodings.def>
#undef ENCODING
};

// value = scale * float, rounded once and canonical; subnormal scales read as zero. Every code under scales of any
// size.
TEST(Encodings, BlocksOfFloatsAreTheirDefinition) {
  const FloatingPointScope scope;
  std::mt19937 random(1);
  std::vector<float> scales = {0.0F, -0.0F, 1.0F, 0x1p-126F, -0x1.8p-130F, 0x1p-110F, 0x1.fffffep127F, INFINITY, NAN};
  for (int i = 0; i < 500; ++i) scales.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  std::byte block[132];
  for (const Encoding encoding : kFloats) {
    ASSERT_EQ(info_of(encoding).bytes, sizeof block);
    for (const float scale : scales) {
      std::memcpy(block, &scale, sizeof scale);
      const float factor = std::fabs(scale) < 0x1p-126F ? std::copysign(0.0F, scale) : scale;
      for (int first = 0; first < 256; first += 128) {
        for (int i = 0; i < 128; ++i) block[4 + i] = static_cast<std::byte>(first + i);
        for (int i = 0; i < 128; ++i) {
          const auto code = static_cast<std::uint8_t>(first + i);
          const float number = holds_e4m3(encoding) ? to_f32(Float8E4M3{code}) : to_f32(Float8E5M2{code});
          const float product = factor * number;
          const auto bits = std::bit_cast<std::uint32_t>(product);
          const bool tiny = (bits & 0x7fffffffU) <= 0x00800000U;
          const std::uint32_t expected = std::isnan(product) ? 0x7fc00000U : tiny ? bits & 0x80000000U : bits;
          const auto word = static_cast<std::uint32_t>(load_word(encoding, DType::f32, block, i));
          ASSERT_EQ(word, expected) << name_of(encoding) << " scale " << scale << ", code " << first + i;
        }
      }
    }
  }
}

// Elements are counted through the blocks, which may begin at any byte.
TEST(Encodings, ElementsAreCountedThroughTheBlocks) {
  std::vector<std::byte> memory(1 + 3 * 34);
  for (int block = 0; block < 3; ++block) {
    const std::uint16_t scale = to_f16(static_cast<float>(block + 1)).bits;
    std::memcpy(memory.data() + 1 + 34 * block, &scale, 2);
    for (int i = 0; i < 32; ++i)
      memory[static_cast<std::size_t>(1 + 34 * block + 2 + i)] = static_cast<std::byte>(i - 16);
  }
  for (int i = 0; i < 96; ++i) {
    const auto word = static_cast<std::uint32_t>(load_word(Encoding::q8_0, DType::f32, memory.data() + 1, i));
    const auto expected = static_cast<float>((i / 32 + 1) * (i % 32 - 16));
    EXPECT_EQ(std::bit_cast<float>(word), expected) << i;
  }
}

}  // namespace
}  // namespace lockstep
