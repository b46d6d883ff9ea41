// Casts round once from the exact source (docs/numerics.md section 9), wrap-around, Philox.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/accuracy.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMin64 = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax64 = std::numeric_limits<std::int64_t>::max();

/// The integer nearest in `bits` significant bits, halves to even, by its definition.
double round_integer(std::int64_t x, int bits) {
  const bool negative = x < 0;
  const std::uint64_t magnitude = negative ? 0 - static_cast<std::uint64_t>(x) : static_cast<std::uint64_t>(x);
  int width = 0;
  while (width < 64 && (magnitude >> width) != 0) ++width;
  const int shift = std::max(0, width - bits);
  if (shift == 0) return static_cast<double>(x);
  std::uint64_t kept = magnitude >> shift;
  const std::uint64_t rest = magnitude - (kept << shift);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
  return std::ldexp(static_cast<double>(kept), shift) * (negative ? -1 : 1);
}

TEST(CastFromI64, RoundsOnceToEveryFloat) {
  for (std::uint64_t i = 0; i < 300'000; ++i) {
    const std::uint64_t word = test::mix(i);
    // Every width, and neighbours of ties of 24, 11 and 8 bits.
    std::int64_t x = static_cast<std::int64_t>(word) >> (i % 64);
    if (i % 3 == 0)
      x = static_cast<std::int64_t>((static_cast<std::uint64_t>(x | 1) << (i % 20)) + i % 5 - 2);
    ASSERT_EQ(scalar::cast_f32(x), static_cast<float>(round_integer(x, 24))) << x;
    ASSERT_EQ(static_cast<double>(scalar::cast_bf16(x)), round_integer(x, 8)) << x;
    const double f16 = round_integer(x, 11);
    ASSERT_EQ(static_cast<double>(scalar::cast_f16(x)), std::abs(f16) < 65536 ? f16 : std::copysign(INFINITY, f16))
        << x;
    ASSERT_EQ(scalar::cast_f64(x), round_integer(x, 53)) << x;
  }
  EXPECT_EQ(scalar::cast_bf16(kMin64), -0x1p63F);
  // A tie of bf16 that is broken by the last bit: rounding through f64 or f32 would lose it.
  const std::int64_t tie = (std::int64_t{0x101} << 54) + 1;
  EXPECT_EQ(scalar::cast_bf16(tie), 0x1.02p62F);
  EXPECT_EQ(scalar::cast_bf16(tie - 1), 0x1.00p62F);
}

TEST(CastFromF64, RoundsOnceToF16AndBf16) {
  // Just above a tie of the target, but on it after rounding to f32.
  EXPECT_EQ(scalar::cast_f16(1.0 + 0x1p-11 + 0x1p-40), 1.0F + 0x1p-10F);
  EXPECT_EQ(scalar::cast_f16(1.0 + 0x1p-11), 1.0F);
  EXPECT_EQ(scalar::cast_bf16(1.0 + 0x1p-8 + 0x1p-40), 1.0F + 0x1p-7F);
  EXPECT_EQ(scalar::cast_bf16(1.0 + 0x1p-8), 1.0F);
  EXPECT_EQ(scalar::cast_f16(65520.0 - 0x1p-30), 65504.0F);
  EXPECT_EQ(scalar::cast_f16(65520.0), INFINITY);
  EXPECT_EQ(scalar::cast_f16(0x1p-25 + 0x1p-60), 0x1p-24F);
  EXPECT_EQ(scalar::cast_f16(0x1p-25), 0.0F);
  EXPECT_EQ(scalar::cast_f16(1e300), INFINITY);
  EXPECT_EQ(BITS(scalar::cast_bf16(-1e-300)), 0x80000000U);
  EXPECT_EQ(BITS(scalar::cast_f16(std::nan(""))), 0x7fc00000U);
}

TEST(CastFromF64, ToF32IsCanonical) {
  EXPECT_EQ(BITS(scalar::cast_f32(0x1p-126)), 0U);
  EXPECT_EQ(BITS(scalar::cast_f32(-0x1p-130)), 0x80000000U);
  EXPECT_EQ(BITS(scalar::cast_f32(0x1.000002p-126)), 0x00800001U);
  EXPECT_EQ(BITS(scalar::cast_f32(-std::nan(""))), 0x7fc00000U);
  EXPECT_EQ(scalar::cast_f32(1e300), INFINITY);
}

TEST(CastToInteger, SaturatesAndMakesNanZero) {
  EXPECT_EQ(scalar::cast_i32(3e9F), std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(scalar::cast_i32(-3e9F), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(scalar::cast_i32(NAN), 0);
  EXPECT_EQ(scalar::cast_i32(-1.9F), -1);
  EXPECT_EQ(scalar::cast_i32(2147483646.9), 2147483646);
  EXPECT_EQ(scalar::cast_u8(-3.0F), 0);
  EXPECT_EQ(scalar::cast_u8(256.0F), 255);
  EXPECT_EQ(scalar::cast_u8(INFINITY), 255);
  EXPECT_EQ(scalar::cast_i8(-1000.0), -128);
  EXPECT_EQ(scalar::cast_i16(40000.0F), 32767);
  EXPECT_EQ(scalar::cast_u32(5e9F), 4294967295);
  EXPECT_EQ(scalar::cast_u32(-1.0F), 0);
  EXPECT_EQ(scalar::cast_i64(1e19F), kMax64);
  EXPECT_EQ(scalar::cast_i64(-1e19), kMin64);
  EXPECT_EQ(scalar::cast_i64(9223372036854774784.0), 9223372036854774784);
  EXPECT_EQ(scalar::cast_i64(std::nan("")), 0);
}

TEST(CastToInteger, WrapsIntegers) {
  EXPECT_EQ(scalar::cast_u8(-1), 255);
  EXPECT_EQ(scalar::cast_i8(200), -56);
  EXPECT_EQ(scalar::cast_i16(std::int64_t{0x18000}), -32768);
  EXPECT_EQ(scalar::cast_i32(std::int64_t{0x180000000}), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(scalar::cast_u32(-1), 4294967295);
  EXPECT_EQ(scalar::cast_i64(-1), -1);
}

TEST(CastToBool, IsWhetherNotZero) {
  EXPECT_EQ(scalar::cast_bool(NAN), 1);
  EXPECT_EQ(scalar::cast_bool(-0.0F), 0);
  EXPECT_EQ(scalar::cast_bool(FROM_BITS(1U)), 0);  // reads as zero
  EXPECT_EQ(scalar::cast_bool(5e-324), 1);         // f64 keeps subnormals
  EXPECT_EQ(scalar::cast_bool(256), 1);
  EXPECT_EQ(scalar::cast_bool(std::int64_t{1} << 40), 1);
}

TEST(Integers, WrapAround) {
  constexpr std::int32_t kMin32 = std::numeric_limits<std::int32_t>::min();
  EXPECT_EQ(scalar::wrap_neg(kMin32), kMin32);
  EXPECT_EQ(scalar::wrap_sub(kMin32, 1), std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(scalar::wrap_mul(65536, 65536), 0);
  EXPECT_EQ(scalar::wrap_add(kMax64, std::int64_t{1}), kMin64);
  EXPECT_EQ(scalar::wrap_mul(kMin64, std::int64_t{-1}), kMin64);
}

struct PhiloxCase {
  std::uint32_t counter[4], key[2], words[4];
};

// Random123's kat_vectors for philox4x32 with 10 rounds.
TEST(Philox, GivesRandom123sKnownAnswers) {
  const PhiloxCase cases[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const PhiloxCase& c : cases) {
    std::uint32_t words[4];
    scalar::philox4x32(c.key[0], c.key[1], c.counter[0], c.counter[1], c.counter[2], c.counter[3], words[0], words[1],
                       words[2], words[3]);
    for (std::uint32_t i = 0; i < 4; ++i) {
      EXPECT_EQ(words[i], c.words[i]);
      // As element 4 * counter + i of a draw.
      if (c.counter[1] >> 30 == 0) {
        EXPECT_EQ(scalar::philox_word(c.key[0], c.key[1], c.counter[2], c.counter[3], c.counter[0] * 4 + i,
                                      c.counter[1] * 4 + (c.counter[0] >> 30)),
                  c.words[i]);
      }
    }
  }
}

TEST(Philox, DrawsSeedsAndPositionsDiffer) {
  const std::uint32_t word = scalar::philox_word(1, 0, 0, 0, 0, 0);
  EXPECT_NE(word, scalar::philox_word(0, 1, 0, 0, 0, 0));
  EXPECT_NE(word, scalar::philox_word(1, 0, 1, 0, 0, 0));
  EXPECT_NE(word, scalar::philox_word(1, 0, 0, 0, 1, 0));
  EXPECT_NE(word, scalar::philox_word(1, 0, 0, 0, 0, 1));
}

}  // namespace
}  // namespace lockstep
