// f16 and bf16: all 65536 words, and every boundary between them.
#include <gtest/gtest.h>

#include <cmath>

#include <lockstep/dtype.h>

#include "kernels/scalar.h"

namespace lockstep {
namespace {

/// The value of an f16 by its definition.
double f16_value(std::uint32_t word) {
  const double sign = (word & 0x8000U) != 0 ? -1 : 1;
  const auto exponent = static_cast<int>((word >> 10) & 31);
  const double fraction = (word & 0x3ffU) / 1024.0;
  if (exponent == 31) return fraction != 0 ? std::nan("") : sign * INFINITY;
  return exponent == 0 ? sign * std::ldexp(fraction, -14) : sign * std::ldexp(1 + fraction, exponent - 15);
}

TEST(Float16, EveryWordDecodesToItsValueAndBack) {
  for (std::uint32_t word = 0; word < 0x10000U; ++word) {
    const float value = scalar::decode_f16(word);
    const double exact = f16_value(word);
    if (std::isnan(exact)) {
      ASSERT_EQ(BITS(value), 0x7fc00000U) << word;
      ASSERT_EQ(scalar::encode_f16(value), 0x7e00U);
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), exact) << word;
    ASSERT_EQ(std::signbit(value), (word & 0x8000U) != 0) << word;
    ASSERT_EQ(scalar::encode_f16(value), word);
  }
}

TEST(Float16, BoundariesRoundToNearestEven) {
  for (std::uint32_t word = 0; word < 0x7c00U; ++word) {
    // Between f16 neighbours the middle is a float; 65536 takes the place of infinity.
    const double next = word + 1 == 0x7c00U ? 65536.0 : f16_value(word + 1);
    const auto middle = static_cast<float>((f16_value(word) + next) / 2);
    const std::uint32_t even = (word & 1) == 0 ? word : word + 1;
    for (std::uint32_t sign : {0U, 0x8000U}) {
      const float factor = sign == 0 ? 1.0F : -1.0F;
      ASSERT_EQ(scalar::encode_f16(factor * middle), even | sign) << word;
      ASSERT_EQ(scalar::encode_f16(factor * std::nextafter(middle, 0.0F)), word | sign) << word;
      ASSERT_EQ(scalar::encode_f16(factor * std::nextafter(middle, 1e9F)), (word + 1) | sign) << word;
    }
  }
  EXPECT_EQ(scalar::encode_f16(FROM_BITS(1U)), 0U);
  EXPECT_EQ(scalar::encode_f16(3e38F), 0x7c00U);
  EXPECT_EQ(scalar::encode_f16(-INFINITY), 0xfc00U);
  EXPECT_EQ(scalar::encode_f16(FROM_BITS(0xff800001U)), 0x7e00U);
}

TEST(BFloat16, EveryWordDecodesToItsValueAndBack) {
  for (std::uint32_t word = 0; word < 0x10000U; ++word) {
    const std::uint32_t magnitude = word & 0x7fffU;
    const std::uint32_t read = magnitude < 0x80U ? word & 0x8000U : word;
    ASSERT_EQ(BITS(scalar::decode_bf16(word)), read << 16);
    ASSERT_EQ(BITS(to_f32(BFloat16{static_cast<std::uint16_t>(word)})), word << 16);
    const std::uint32_t stored = magnitude > 0x7f80U ? 0x7fc0U : magnitude <= 0x80U ? word & 0x8000U : word;
    ASSERT_EQ(scalar::encode_bf16(FROM_BITS(word << 16)), stored) << word;
  }
}

TEST(BFloat16, BoundariesRoundToNearestEven) {
  for (std::uint32_t word = 0x81U; word < 0x7f80U; ++word) {
    const std::uint32_t even = (word & 1) == 0 ? word : word + 1;
    ASSERT_EQ(scalar::encode_bf16(FROM_BITS((word << 16) + 0x8000U)), even);
    ASSERT_EQ(scalar::encode_bf16(FROM_BITS((word << 16) + 0x7fffU)), word);
    ASSERT_EQ(scalar::encode_bf16(FROM_BITS((word << 16) + 0x8001U)), word + 1);
  }
  // What rounds to the smallest normal is zero; data that a user converts keeps it, and subnormals.
  EXPECT_EQ(scalar::encode_bf16(FROM_BITS(0x00807fffU)), 0U);
  EXPECT_EQ(scalar::encode_bf16(FROM_BITS(0x80808001U)), 0x8081U);
  EXPECT_EQ(to_bf16(FROM_BITS(0x00010000U)).bits, 1U);
}

TEST(PublicConversions, AreTheTexts) {
  EXPECT_EQ(to_f16(1.0F).bits, 0x3c00U);
  EXPECT_EQ(to_f32(Float16{0xc000U}), -2.0F);
  EXPECT_EQ(to_bf16(1.0F).bits, 0x3f80U);
  EXPECT_EQ(to_bf16(-NAN).bits, 0x7fc0U);
  EXPECT_EQ(to_f16(-NAN).bits, 0x7e00U);
}

}  // namespace
}  // namespace lockstep
