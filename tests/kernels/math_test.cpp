// The f32 functions of math.h as scalar code against double precision: a stratified sample of 2^24 inputs. All
// functions as the CPU computes them, and all inputs: tests/backends/cpu/elementary_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/fp_state.h"
#include "kernels/accuracy.h"
#include "kernels/sweep.h"

namespace lockstep {
namespace {

using test::Accuracy;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::uint32_t kNan = 0x7fc00000;

double exact_sigmoid(double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}
double exact_gelu(double x) {
  return x == -std::numeric_limits<double>::infinity() ? -0.0 : x * 0.5 * std::erfc(-x * 0.70710678118654752440);
}
double exact_rsqrt(double x) {
  return 1 / std::sqrt(x);
}

struct Case {
  const char* name;
  float (*function)(float);
  double (*exact)(double);
  double bound;  ///< stated in docs/numerics.md
};

#define CANONICAL(function) [](float x) { return scalar::canonical(scalar::function(x)); }
const Case kCases[] = {
    {"exp", CANONICAL(ls_exp), std::exp, 0.88},
    {"log", CANONICAL(ls_log), std::log, 0.89},
    {"tanh", CANONICAL(ls_tanh), std::tanh, 0.79},
    {"erf", CANONICAL(ls_erf), std::erf, 1.0},
    {"sigmoid", CANONICAL(ls_sigmoid), exact_sigmoid, 0.69},
    {"gelu", CANONICAL(ls_gelu), exact_gelu, 1.71},
    {"sin", CANONICAL(ls_sin), std::sin, 0.76},
    {"cos", CANONICAL(ls_cos), std::cos, 0.75},
    {"rsqrt", CANONICAL(ls_rsqrt), exact_rsqrt, 0.5001},
    {"soft_sqrt", CANONICAL(soft_sqrt), std::sqrt, 0.5},
};

class MathFunction : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(F32, MathFunction, testing::ValuesIn(kCases),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

/// One input of each of 2^24 strata of 256 neighbours.
std::uint32_t sample(std::uint32_t i) {
  return i << 8 | static_cast<std::uint32_t>(test::mix(i) & 0xff);
}

void expect_within_bound(const Case& c, const Accuracy& accuracy) {
  test::print(c.name, accuracy);
  EXPECT_LE(accuracy.max_ulp, c.bound) << "at " << accuracy.worst_input;
  EXPECT_EQ(accuracy.special_mismatches, 0U) << "at " << accuracy.mismatch_input;
}

TEST_P(MathFunction, StaysWithinItsBound) {
  const Case& c = GetParam();
  Accuracy accuracy;
  for (std::uint32_t i = 0; i < (1U << 24); ++i) {
    const float x = scalar::operand_f32(FROM_BITS(sample(i)));
    test::compare(accuracy, x, c.function(x), c.exact(static_cast<double>(x)));
  }
  expect_within_bound(c, accuracy);
}

constexpr std::uint64_t kFlushing = 0x9fc0;  // MXCSR with FTZ and DAZ

/// A hash of the function's results for every `step`th input, computed in the given floating-point state.
std::uint64_t hash_in_state(const Case& c, std::uint64_t control_word, std::uint64_t step) {
  const std::uint64_t found = FloatingPointScope::control_word();
  FloatingPointScope::set_control_word(control_word);
  const std::uint64_t hash = hash_results(c.function, 0, std::uint64_t{1} << 32, step);
  FloatingPointScope::set_control_word(found);
  return hash;
}

TEST_P(MathFunction, GivesTheSameBitsWhereSubnormalsAreFlushed) {
#ifndef __x86_64__
  GTEST_SKIP() << "the control word is MXCSR";
#endif
  EXPECT_EQ(hash_in_state(GetParam(), kFlushing, 4093), hash_in_state(GetParam(), 0x1f80, 4093));
}

TEST(MathSoftSquareRoot, DISABLED_ExhaustiveIsCorrectlyRounded) {
  for (std::uint64_t i = 0; i < (std::uint64_t{1} << 32); ++i) {
    const float x = scalar::operand_f32(FROM_BITS(i));
    ASSERT_EQ(BITS(scalar::canonical(scalar::soft_sqrt(x))), BITS(scalar::canonical(SQRT(x)))) << x;
  }
}

TEST_P(MathFunction, NanGivesTheOneNan) {
  for (std::uint32_t bits : {0x7fc00000U, 0xffc00000U, 0x7f800001U, 0xffffffffU}) {
    EXPECT_EQ(BITS(GetParam().function(FROM_BITS(bits))), kNan);
  }
}

TEST(MathHardCase, SineWhereCodyWaiteNeedsAnExactSum) {
  EXPECT_EQ(scalar::ls_sin(534117.9F), static_cast<float>(std::sin(static_cast<double>(534117.9F))));
}

TEST(MathHardCase, GeluDeepInTheNegativeTail) {
  for (float x : {-12.87F, -5.0F, -13.0F, -0.01F}) {
    Accuracy accuracy;
    test::compare(accuracy, x, scalar::canonical(scalar::ls_gelu(x)), exact_gelu(static_cast<double>(x)));
    EXPECT_LE(accuracy.max_ulp, 1.71) << x;
  }
}

TEST(MathHardCase, GeluForBf16RoundsAsGeluForEveryValue) {
  for (std::uint32_t word = 0; word < 0x10000U; ++word) {
    const float x = scalar::decode_bf16(word);
    ASSERT_EQ(scalar::encode_bf16(scalar::ls_gelu_to_bf16(x)), scalar::encode_bf16(scalar::ls_gelu(x))) << x;
  }
}

TEST(MathHardCase, ExpIsCanonicalByItself) {
  for (std::uint32_t bits = 0xc2ae0000U; bits <= 0xc2c00000U; ++bits) {
    const float result = scalar::ls_exp(FROM_BITS(bits));
    ASSERT_EQ(BITS(result), BITS(scalar::canonical(result))) << FROM_BITS(bits);
  }
  EXPECT_GT(BITS(scalar::ls_exp(FROM_BITS(0xc2aeac4fU))), 0x00800000U);
  EXPECT_EQ(BITS(scalar::ls_exp(FROM_BITS(0xc2aeac50U))), 0U);
  EXPECT_EQ(BITS(scalar::ls_exp(-kInfinity)), 0U);
  EXPECT_EQ(BITS(scalar::ls_exp(kInfinity)), 0x7f800000U);
}

TEST(MathHardCase, SmallVariantsOfSineAndCosineGiveTheSameBits) {
  for (std::uint32_t bits = 0; bits <= 0x49800000U; bits += 1021) {
    for (float x : {FROM_BITS(bits), FROM_BITS(bits | 0x80000000U)}) {
      ASSERT_EQ(BITS(scalar::ls_sin_small(x)), BITS(scalar::ls_sin(x))) << x;
      ASSERT_EQ(BITS(scalar::ls_cos_small(x)), BITS(scalar::ls_cos(x))) << x;
    }
  }
}

TEST(MathSpecialValues, AreThoseOfTheCLibrary) {
  EXPECT_EQ(scalar::ls_exp(-kInfinity), 0.0F);
  EXPECT_EQ(scalar::ls_exp(kInfinity), kInfinity);
  EXPECT_EQ(scalar::ls_exp(0.0F), 1.0F);
  EXPECT_EQ(scalar::ls_log(0.0F), -kInfinity);
  EXPECT_EQ(scalar::ls_log(-0.0F), -kInfinity);
  EXPECT_EQ(BITS(scalar::ls_log(1.0F)), 0U);
  EXPECT_EQ(BITS(scalar::ls_log(-1.0F)), kNan);
  EXPECT_EQ(BITS(scalar::ls_tanh(-0.0F)), 0x80000000U);
  EXPECT_EQ(scalar::ls_tanh(-kInfinity), -1.0F);
  EXPECT_EQ(BITS(scalar::ls_erf(-0.0F)), 0x80000000U);
  EXPECT_EQ(BITS(scalar::ls_sin(-0.0F)), 0x80000000U);
  EXPECT_EQ(BITS(scalar::ls_sin(kInfinity)), kNan);
  EXPECT_EQ(scalar::ls_rsqrt(-0.0F), -kInfinity);
  EXPECT_EQ(scalar::ls_sigmoid(0.0F), 0.5F);
  EXPECT_EQ(BITS(scalar::canonical(scalar::ls_gelu(-kInfinity))), 0x80000000U);
  EXPECT_EQ(scalar::ls_gelu(kInfinity), kInfinity);
}

TEST(MathRounding, EqualsTheCLibraryIncludingZerosAndNan) {
  for (std::uint64_t i = 0; i < (std::uint64_t{1} << 32); i += 251) {
    const float x = FROM_BITS(i);
    if (std::isnan(x)) continue;
    ASSERT_EQ(BITS(scalar::float_floor(x)), BITS(std::floor(x))) << x;
    ASSERT_EQ(BITS(scalar::float_ceil(x)), BITS(std::ceil(x))) << x;
    ASSERT_EQ(BITS(scalar::float_trunc(x)), BITS(std::trunc(x))) << x;
    ASSERT_EQ(BITS(scalar::float_round(x)), BITS(std::nearbyint(x))) << x;
  }
  for (float x : {0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -0.0F, 0.0F, 8388607.5F, -8388607.5F, kInfinity, -kInfinity}) {
    EXPECT_EQ(BITS(scalar::float_round(x)), BITS(std::nearbyint(x))) << x;
    EXPECT_EQ(BITS(scalar::float_ceil(x)), BITS(std::ceil(x))) << x;
    EXPECT_EQ(BITS(scalar::float_floor(x)), BITS(std::floor(x))) << x;
  }
  EXPECT_TRUE(std::isnan(scalar::float_floor(std::nanf(""))));
  EXPECT_TRUE(std::isnan(scalar::float_round(std::nanf(""))));
}

TEST(MathSoftDivision, EqualsIeeeDivisionOfCanonicalNumbers) {
  const auto canonical_of = [](std::uint64_t bits) { return scalar::canonical(FROM_BITS(bits)); };
  const auto check = [&](float a, float b) {
    ASSERT_EQ(BITS(scalar::soft_div(a, b)), BITS(scalar::canonical(a / b))) << a << " / " << b;
  };
  const float special[] = {0.0F, -0.0F, 1.0F, -1.0F, kInfinity, -kInfinity, std::nanf(""), 3e38F, 1.2e-38F};
  for (float a : special) {
    for (float b : special) check(a, b);
  }
  for (std::uint64_t i = 0; i < 2'000'000; ++i) {
    const std::uint64_t word = test::mix(i);
    check(canonical_of(word), canonical_of(word >> 32));
    // Quotients near overflow and the smallest normal.
    check(canonical_of((word & 0x80ffffffU) | 0x7e000000U), canonical_of(((word >> 32) & 0x81ffffffU) | 0x3e000000U));
    check(canonical_of((word & 0x80ffffffU) | 0x01000000U), canonical_of(((word >> 32) & 0x81ffffffU) | 0x3e000000U));
  }
}

TEST(MathQuickQuotient, EqualsIeeeDivisionWhereItAnswers) {
  std::uint64_t answered = 0;
  const auto check = [&](float x, float d) {
    float quotient;
    if (!scalar::quick_quotient(x, d, 1.0F / d, quotient)) return;
    ++answered;
    ASSERT_EQ(BITS(quotient), BITS(scalar::canonical(x / d))) << x << " / " << d;
  };
  // Significands around the ends of their range, where quotients are furthest off before they are corrected.
  constexpr std::uint32_t kEdge = 300;
  const auto edge = [](std::uint32_t i) {
    return i < kEdge ? i : i < 2 * kEdge ? 0x007fffffU - (i - kEdge) : 0x003504f3U - kEdge / 2 + (i - 2 * kEdge);
  };
  for (std::uint32_t i = 0; i < 3 * kEdge; ++i) {
    for (std::uint32_t j = 0; j < 3 * kEdge; ++j) {
      check(FROM_BITS(0x3f800000U | edge(i)), FROM_BITS(0x3f800000U | edge(j)));
    }
  }
  constexpr std::uint64_t kPairs = 4'000'000;
  for (std::uint64_t i = 0; i < kPairs; ++i) {
    const std::uint64_t word = test::mix(i);
    const float d = FROM_BITS(0x37800000U + static_cast<std::uint32_t>(word >> 32) % 0x26000000U);  // [2^-16, 2^60)
    check(FROM_BITS((static_cast<std::uint32_t>(word) & 0x807fffffU) | 0x3f800000U), d);
    check(scalar::canonical(FROM_BITS(static_cast<std::uint32_t>(word))), d);
    // Quotients that are halfway between two floats but for little: odd multiples of half a unit, and their neighbours.
    const double middle = (1.0 + static_cast<double>((word & 0x7fffffU) * 2 + 1) / 0x1p24) * static_cast<double>(d);
    const auto near = static_cast<float>(middle);
    for (const float x : {near, std::nextafter(near, 0.0F), std::nextafter(near, kInfinity)}) check(x, d);
  }
  EXPECT_GT(answered, kPairs * 9 / 2);
  float quotient;
  EXPECT_TRUE(scalar::quick_quotient(-0.0F, 3.0F, 1.0F / 3.0F, quotient));
  EXPECT_EQ(BITS(quotient), 0x80000000U);
  EXPECT_FALSE(scalar::quick_quotient(kInfinity, 3.0F, 1.0F / 3.0F, quotient));
  EXPECT_FALSE(scalar::quick_quotient(std::nanf(""), 3.0F, 1.0F / 3.0F, quotient));
  EXPECT_FALSE(scalar::quick_quotient(1.0F, 3.0F, std::nanf(""), quotient));
  EXPECT_FALSE(scalar::quick_quotient(0.0F, 0.0F, std::nanf(""), quotient));
  EXPECT_FALSE(scalar::quick_quotient(0x1p-100F, 3.0F, 1.0F / 3.0F, quotient));
}

TEST(MathQuickQuotient, RoundsToTheSameBf16WhereItAnswers) {
  std::uint64_t answered = 0;
  const auto check = [&](float x, float d) {
    float quotient;
    if (!scalar::quick_quotient_to_bf16(x, 1.0F / d, quotient)) return;
    ++answered;
    ASSERT_EQ(scalar::encode_bf16(quotient), scalar::encode_bf16(scalar::canonical(x / d))) << x << " / " << d;
  };
  constexpr std::uint64_t kPairs = 2'000'000;
  for (std::uint64_t i = 0; i < kPairs; ++i) {
    const std::uint64_t word = test::mix(i);
    const float d = FROM_BITS(0x37800000U + static_cast<std::uint32_t>(word >> 32) % 0x26000000U);  // [2^-16, 2^60)
    check(scalar::canonical(FROM_BITS(static_cast<std::uint32_t>(word))), d);
    // Quotients that are halfway between two of bf16 but for little, of any size; those around the least and the
    // largest number.
    const int exponent = i % 3 == 0 ? -126 : i % 3 == 1 ? 127 : static_cast<int>(word >> 40 & 0xff) - 128;
    const double middle = (1.0 + static_cast<double>((word & 0x7fU) * 2 + 1) / 0x1p8) * static_cast<double>(d);
    auto x = scalar::canonical(static_cast<float>(std::ldexp(middle, exponent)));
    for (int step = -3; step <= 3; ++step)
      check(scalar::canonical(FROM_BITS(BITS(x) + static_cast<unsigned>(step))), d);
  }
  EXPECT_GT(answered, kPairs * 2);
  float quotient;
  EXPECT_FALSE(scalar::quick_quotient_to_bf16(1.0F, std::nanf(""), quotient));
  EXPECT_TRUE(scalar::quick_quotient_to_bf16(-0.0F, 1.0F / 3.0F, quotient));
  EXPECT_EQ(BITS(quotient), 0x80000000U);
  EXPECT_TRUE(scalar::quick_quotient_to_bf16(-kInfinity, 1.0F / 3.0F, quotient));
  EXPECT_EQ(quotient, -kInfinity);
}

TEST(MathQuickQuotient, ExhaustiveOfEveryBf16ByEverySignificandOfOne) {
  // A quotient by 2^k d is that by d but for its exponent, so one divisor of each significand and three exponents do.
  std::uint64_t answered = 0;
  for (std::uint32_t word = 0; word < 1 << 16; ++word) {
    const float x = scalar::operand_f32(FROM_BITS(word << 16));
    for (std::uint32_t significand = 0; significand < 128; ++significand) {
      for (const std::uint32_t exponent : {111U, 127U, 186U}) {  // 2^-16, 1, 2^59
        const float d = FROM_BITS(exponent << 23 | significand << 16);
        const float inverse = 1.0F / d;
        const float exact = scalar::canonical(x / d);
        float quotient;
        if (scalar::quick_quotient(x, d, inverse, quotient)) {
          ++answered;
          ASSERT_EQ(BITS(quotient), BITS(exact)) << x << " / " << d;
        }
        if (scalar::quick_quotient_to_bf16(x, inverse, quotient)) {
          ++answered;
          ASSERT_EQ(scalar::encode_bf16(quotient), scalar::encode_bf16(exact)) << x << " / " << d;
        }
      }
    }
  }
  EXPECT_GT(answered, (std::uint64_t{1} << 16) * 128 * 3);
}

TEST(Canonical, FlushesUpToTheSmallestNormalAndHasOneNan) {
  EXPECT_EQ(BITS(scalar::canonical_f32(FROM_BITS(0x00800000U))), 0U);
  EXPECT_EQ(BITS(scalar::canonical_f32(FROM_BITS(0x80800000U))), 0x80000000U);
  EXPECT_EQ(BITS(scalar::canonical_f32(FROM_BITS(0x00800001U))), 0x00800001U);
  EXPECT_EQ(BITS(scalar::canonical_f32(FROM_BITS(0x80000001U))), 0x80000000U);
  EXPECT_EQ(BITS(scalar::canonical_f32(-0.0F)), 0x80000000U);
  EXPECT_EQ(BITS(scalar::canonical_f32(FROM_BITS(0xff800001U))), kNan);
  EXPECT_EQ(BITS(scalar::canonical_f32(FROM_BITS(0xff800000U))), 0xff800000U);
  EXPECT_EQ(BITS(scalar::canonical_f32(FROM_BITS(0xffffffffU))), kNan);
  // As an operand the smallest normal still counts.
  EXPECT_EQ(BITS(scalar::operand_f32(FROM_BITS(0x00800000U))), 0x00800000U);
  EXPECT_EQ(BITS(scalar::operand_f32(FROM_BITS(0x807fffffU))), 0x80000000U);
}

TEST(OrderingKey, PutsNanOnTopAndEqualsZerosAndSubnormals) {
  const std::vector<float> ascending = {
      -kInfinity, -3e38F, -1.0F, FROM_BITS(0x80800000U), 0.0F, FROM_BITS(0x00800000U), 1.0F, kInfinity};
  for (std::size_t i = 1; i < ascending.size(); ++i) {
    EXPECT_LT(scalar::max_key(ascending[i - 1]), scalar::max_key(ascending[i]));
    EXPECT_LT(scalar::min_key(ascending[i - 1]), scalar::min_key(ascending[i]));
  }
  for (std::uint32_t bits : {0x80000000U, 0x00000001U, 0x807fffffU}) EXPECT_EQ(scalar::max_key(FROM_BITS(bits)), 0);
  for (std::uint32_t bits : {0x7fc00000U, 0xffc00000U, 0xff800001U}) {
    EXPECT_GT(scalar::max_key(FROM_BITS(bits)), scalar::max_key(kInfinity));
    EXPECT_LT(scalar::min_key(FROM_BITS(bits)), scalar::min_key(-kInfinity));
  }
}

}  // namespace
}  // namespace lockstep
