// The f64 functions against long double (64 or more bits of precision).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "kernels/accuracy.h"

namespace lockstep {
namespace {

using test::Accuracy;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::uint64_t kNan = 0x7ff8000000000000U;

long double exact_sigmoid(long double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}
/// erfc turns the rounding error of its argument y into one of 2 y^2 times the size: corrected by the exact difference
/// of x^2 / 2 and y^2.
long double exact_gelu(long double x) {
  if (x < -50) return -0.0L;
  if (x > -2) return x * 0.5L * std::erfc(-x / std::numbers::sqrt2_v<long double>);
  const long double y = -x / std::numbers::sqrt2_v<long double>;
  const long double x2 = x * x;
  const long double y2 = y * y;
  const long double difference = (x2 / 2 - y2) + (std::fma(x, x, -x2) / 2 - std::fma(y, y, -y2));
  return x * 0.5L * std::erfc(y) * std::exp(-difference);
}
/// From an approximation in double, by Halley's method.
long double exact_erfinv(long double x) {
  const long double a = std::abs(x);
  if (!(a < 1)) return a == 1 ? x * std::numeric_limits<long double>::infinity() : std::nanl("");
  if (a < 1e-10L) return x * 0.88622692545275801364908374167057259L;
  long double y = scalar::ls_erfinv(static_cast<double>(a));
  for (int i = 0; i < 2; ++i) {
    const long double difference = a < 0.5L ? std::erf(y) - a : (1 - a) - std::erfc(y);
    const long double u = difference * std::exp(y * y) / std::numbers::inv_sqrtpi_v<long double> / 2;
    y -= u / (1 + u * y);
  }
  return std::copysign(y, x);
}
long double exact_rsqrt(long double x) {
  return 1 / std::sqrt(x);
}

struct Case {
  const char* name;
  double (*function)(double);
  long double (*exact)(long double);
  double bound;
  double range;  ///< where the function is interesting: |x| below this
};

#define CANONICAL(function) [](double x) { return scalar::canonical(scalar::function(x)); }
const Case kCases[] = {
    {"exp", CANONICAL(ls_exp), std::exp, 2, 750},
    {"log", CANONICAL(ls_log), std::log, 2, 4},
    {"tanh", CANONICAL(ls_tanh), std::tanh, 2, 20},
    {"erf", CANONICAL(ls_erf), std::erf, 2, 6},
    {"sigmoid", CANONICAL(ls_sigmoid), exact_sigmoid, 2, 750},
    {"gelu", CANONICAL(ls_gelu), exact_gelu, 2, 39},
    {"sin", CANONICAL(ls_sin), std::sin, 2, 100},
    {"cos", CANONICAL(ls_cos), std::cos, 2, 100},
    {"rsqrt", CANONICAL(ls_rsqrt), exact_rsqrt, 2, 4},
    {"exp2", CANONICAL(ls_exp2), std::exp2, 2, 1080},
    {"expm1", CANONICAL(ls_expm1), std::expm1, 2, 4},
    {"log2", CANONICAL(ls_log2), std::log2, 2, 4},
    {"log10", CANONICAL(ls_log10), std::log10, 2, 4},
    {"log1p", CANONICAL(ls_log1p), std::log1p, 2, 4},
    {"tan", CANONICAL(ls_tan), std::tan, 2, 100},
    {"asin", CANONICAL(ls_asin), std::asin, 2, 1},
    {"acos", CANONICAL(ls_acos), std::acos, 2, 1},
    {"atan", CANONICAL(ls_atan), std::atan, 2, 10},
    {"sinh", CANONICAL(ls_sinh), std::sinh, 2, 4},
    {"cosh", CANONICAL(ls_cosh), std::cosh, 2, 711},
    {"asinh", CANONICAL(ls_asinh), std::asinh, 2, 4},
    {"acosh", CANONICAL(ls_acosh), std::acosh, 2, 4},
    {"atanh", CANONICAL(ls_atanh), std::atanh, 2, 1},
    {"erfc", CANONICAL(ls_erfc), std::erfc, 2, 28},
    {"erfinv", CANONICAL(ls_erfinv), exact_erfinv, 2, 1},
};

class MathFunctionF64 : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(F64, MathFunctionF64, testing::ValuesIn(kCases),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

/// Inputs over all bit patterns, then over the interesting range, evenly.
void measure(const Case& c, std::uint64_t count) {
  Accuracy accuracy;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t word = test::mix(i);
    const double anywhere = FROM_BITS64(word);
    test::compare(accuracy, anywhere, c.function(anywhere), c.exact(anywhere));
    const double inside = (static_cast<double>(word >> 11) * 0x1p-52 - 1) * c.range;
    test::compare(accuracy, inside, c.function(inside), c.exact(inside));
  }
  test::print(std::string("f64 ") + c.name, accuracy);
  EXPECT_LE(accuracy.max_ulp, c.bound) << "at " << accuracy.worst_input;
  EXPECT_EQ(accuracy.special_mismatches, 0U) << "at " << accuracy.mismatch_input;
}

TEST_P(MathFunctionF64, StaysWithinTwoUlp) {
  measure(GetParam(), 1U << 18);
}
TEST_P(MathFunctionF64, DISABLED_ExhaustiveSampleStaysWithinTwoUlp) {
  measure(GetParam(), 1U << 28);
}

TEST_P(MathFunctionF64, NanGivesTheOneNan) {
  for (std::uint64_t bits : {kNan, kNan | 1U << 31, std::uint64_t{0xfff0000000000001U}}) {
    EXPECT_EQ(BITS64(GetParam().function(FROM_BITS64(bits))), kNan);
  }
}

TEST(MathF64SpecialValues, AreThoseOfTheCLibrary) {
  EXPECT_EQ(scalar::ls_exp(-kInfinity), 0.0);
  EXPECT_EQ(scalar::ls_exp(kInfinity), kInfinity);
  EXPECT_EQ(scalar::ls_exp(0.0), 1.0);
  EXPECT_EQ(scalar::ls_exp(-745.0), 5e-324);
  EXPECT_EQ(scalar::ls_log(0.0), -kInfinity);
  EXPECT_EQ(BITS64(scalar::ls_log(1.0)), 0U);
  EXPECT_EQ(BITS64(scalar::ls_log(-1.0)), kNan);
  EXPECT_EQ(scalar::ls_log(5e-324), std::log(5e-324));
  EXPECT_EQ(BITS64(scalar::ls_tanh(-0.0)), std::uint64_t{1} << 63);
  EXPECT_EQ(BITS64(scalar::ls_erf(-0.0)), std::uint64_t{1} << 63);
  EXPECT_EQ(BITS64(scalar::ls_sin(-0.0)), std::uint64_t{1} << 63);
  EXPECT_EQ(BITS64(scalar::ls_gelu(-0.0)), std::uint64_t{1} << 63);
  EXPECT_EQ(scalar::ls_erf(kInfinity), 1.0);
  EXPECT_EQ(scalar::ls_gelu(kInfinity), kInfinity);
  EXPECT_EQ(BITS64(scalar::ls_gelu(-kInfinity)), std::uint64_t{1} << 63);
  EXPECT_EQ(BITS64(scalar::ls_sin(kInfinity)), kNan);
  EXPECT_EQ(scalar::ls_rsqrt(-0.0), -kInfinity);
  EXPECT_EQ(scalar::ls_exp2(-1074.0), 5e-324);
  EXPECT_EQ(scalar::ls_exp2(1024.0), kInfinity);
  EXPECT_EQ(scalar::ls_expm1(-kInfinity), -1.0);
  EXPECT_EQ(BITS64(scalar::ls_expm1(-0.0)), std::uint64_t{1} << 63);
  EXPECT_EQ(scalar::ls_log1p(-1.0), -kInfinity);
  EXPECT_EQ(BITS64(scalar::ls_log1p(-0.0)), std::uint64_t{1} << 63);
  EXPECT_EQ(scalar::ls_atanh(1.0), kInfinity);
  EXPECT_EQ(BITS64(scalar::ls_atanh(1.5)), kNan);
  EXPECT_EQ(BITS64(scalar::ls_acosh(1.0)), 0U);
  EXPECT_EQ(BITS64(scalar::ls_acosh(-kInfinity)), kNan);
  EXPECT_EQ(scalar::ls_asinh(-kInfinity), -kInfinity);
  EXPECT_EQ(scalar::ls_cosh(-kInfinity), kInfinity);
  EXPECT_EQ(BITS64(scalar::ls_acos(1.0)), 0U);
  EXPECT_EQ(scalar::ls_acos(-1.0), std::numbers::pi);
  EXPECT_EQ(BITS64(scalar::ls_asin(-1.5)), kNan);
  EXPECT_EQ(scalar::ls_atan(-kInfinity), -std::numbers::pi / 2);
  EXPECT_EQ(BITS64(scalar::ls_tan(-0.0)), std::uint64_t{1} << 63);
  EXPECT_EQ(BITS64(scalar::ls_tan(kInfinity)), kNan);
  EXPECT_EQ(scalar::ls_erfc(-kInfinity), 2.0);
  EXPECT_EQ(BITS64(scalar::ls_erfc(kInfinity)), 0U);
  EXPECT_EQ(scalar::ls_erfinv(-1.0), -kInfinity);
  EXPECT_EQ(BITS64(scalar::ls_erfinv(1.5)), kNan);
}

TEST(MathF64SpecialValues, PowersOfTwoAndTenHaveExactLogarithms) {
  for (int e = -1074; e < 1024; ++e) {
    EXPECT_EQ(scalar::ls_log2(std::ldexp(1.0, e)), e);
    EXPECT_EQ(scalar::ls_exp2(static_cast<double>(e)), std::ldexp(1.0, e));
  }
  double power = 1;
  for (int e = 0; e <= 22; ++e, power *= 10) EXPECT_EQ(scalar::ls_log10(power), e);
}

// The doubles closest to multiples of pi/2 for their size: the reduction must keep more than 60 bits beyond them.
TEST(MathF64HardCase, SineAndCosineNextToMultiplesOfHalfPi) {
  const double inputs[] = {0x1.921fb54442d18p0,  0x1.6ac5b262ca1ffp849, 0x1.951f4aefp30, 1e22,  0x1.5fd7fe1796495p37,
                           0x1.921fb54442d18p29, 0x1.921fb54442d18p30,  0x1p1023,        1e300, 0x1.fffffffffffffp1023};
  for (double x : inputs) {
    Accuracy accuracy;
    test::compare(accuracy, x, scalar::ls_sin(x), std::sin(static_cast<long double>(x)));
    test::compare(accuracy, x, scalar::ls_cos(x), std::cos(static_cast<long double>(x)));
    test::compare(accuracy, x, scalar::ls_tan(x), std::tan(static_cast<long double>(x)));
    EXPECT_LE(accuracy.max_ulp, 1.0) << x;
    EXPECT_EQ(accuracy.special_mismatches, 0U) << x;
  }
}

TEST(MathF64HardCase, BothReductionsGiveTheSameBitsAroundTheirBorder) {
  for (int i = 0; i < 100'000; ++i) {
    const double x = 0x1p30 - i * 123.456789;
    ASSERT_EQ(BITS64(scalar::ls_sin_small(x)), BITS64(scalar::ls_sin(x))) << x;
    ASSERT_EQ(BITS64(scalar::ls_cos_small(-x)), BITS64(scalar::ls_cos(-x))) << x;
  }
}

TEST(MathF64Rounding, EqualsTheCLibrary) {
  for (std::uint64_t i = 0; i < 2'000'000; ++i) {
    const std::uint64_t word = test::mix(i);
    for (double x : {FROM_BITS64(word), static_cast<double>(static_cast<std::int64_t>(word) >> (word & 63)) * 0.25}) {
      if (std::isnan(x)) continue;
      ASSERT_EQ(BITS64(scalar::float_floor(x)), BITS64(std::floor(x))) << x;
      ASSERT_EQ(BITS64(scalar::float_ceil(x)), BITS64(std::ceil(x))) << x;
      ASSERT_EQ(BITS64(scalar::float_trunc(x)), BITS64(std::trunc(x))) << x;
      ASSERT_EQ(BITS64(scalar::float_round(x)), BITS64(std::nearbyint(x))) << x;
    }
  }
}

TEST(CanonicalF64, HasOneNanAndKeepsSubnormals) {
  EXPECT_EQ(BITS64(scalar::canonical_f64(FROM_BITS64(0xfff0000000000001U))), kNan);
  EXPECT_EQ(scalar::canonical_f64(5e-324), 5e-324);
  EXPECT_EQ(scalar::canonical_f64(-kInfinity), -kInfinity);
  EXPECT_EQ(BITS64(scalar::canonical_f64(-0.0)), std::uint64_t{1} << 63);
}

TEST(OrderingKeyF64, PutsNanOnTopAndEqualsZeros) {
  const std::vector<double> ascending = {-kInfinity, -1.0, -5e-324, 0.0, 5e-324, 1.0, kInfinity};
  for (std::size_t i = 1; i < ascending.size(); ++i) {
    EXPECT_LT(scalar::max_key(ascending[i - 1]), scalar::max_key(ascending[i]));
    EXPECT_LT(scalar::min_key(ascending[i - 1]), scalar::min_key(ascending[i]));
  }
  EXPECT_EQ(scalar::max_key(-0.0), scalar::max_key(0.0));
  EXPECT_GT(scalar::max_key(-std::nan("")), scalar::max_key(kInfinity));
  EXPECT_LT(scalar::min_key(-std::nan("")), scalar::min_key(-kInfinity));
}

}  // namespace
}  // namespace lockstep
