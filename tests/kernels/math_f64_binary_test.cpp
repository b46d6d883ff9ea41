// The f64 functions of two operands: pow, atan2, hypot and logaddexp against long double, the exact ones against the C
// library.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "kernels/accuracy.h"

namespace lockstep {
namespace {

using test::Accuracy;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kSpecial[] = {0.0,    -0.0,   1,          -1,      kInfinity,  -kInfinity, std::nan(""), 0.5,
                           -0.5,   2,      -2,         3,       -3,         5e-324,     -5e-324,      1e308,
                           -1e308, 0x1p53, 0x1p53 + 2, -0x1p53, 0x1p53 - 1, 1.5,        -1.5,         2.5};
constexpr std::uint64_t kCount = 1U << 18;

std::uint64_t bits(double x) {
  return BITS64(scalar::canonical(x));
}
double anywhere(std::uint64_t i) {
  return FROM_BITS64(test::mix(i));
}
/// In (-4, 4), evenly.
double near_zero(std::uint64_t i) {
  return static_cast<double>(test::mix(i) >> 11) * 0x1p-50 - 4;
}

/// A function of two operands and its truth, on pairs over all bit patterns and on pairs in (-4, 4).
template <typename Function, typename Exact> void measure(const char* name, Function function, Exact exact) {
  Accuracy accuracy;
  const auto compare = [&](double a, double b) {
    const auto truth = exact(static_cast<long double>(a), static_cast<long double>(b));
    test::compare(accuracy, a, scalar::canonical(function(a, b)), truth);
  };
  for (std::uint64_t i = 0; i < kCount; ++i) {
    compare(anywhere(2 * i), anywhere(2 * i + 1));
    compare(near_zero(2 * i), near_zero(2 * i + 1));
  }
  for (double a : kSpecial) {
    for (double b : kSpecial) compare(a, b);
  }
  test::print(std::string("f64 ") + name, accuracy);
  EXPECT_LE(accuracy.max_ulp, 2) << "at " << accuracy.worst_input;
  EXPECT_EQ(accuracy.special_mismatches, 0U) << "at " << accuracy.mismatch_input;
}

TEST(MathF64Binary, PowStaysWithinTwoUlp) {
  measure(
      "pow", [](double a, double b) { return scalar::ls_pow(a, b); },
      [](long double a, long double b) { return std::pow(a, b); });
  // results over the whole range of exponents, from bases over all exponents and from bases near 1
  Accuracy accuracy;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    for (double a : {FROM_BITS64(test::mix(i) % 0x7ff0000000000000U), 1 + near_zero(i) / 16}) {
      const double b = near_zero(i + kCount) / 4 * 745 / std::abs(std::log(a));
      test::compare(accuracy, a, scalar::ls_pow(a, b),
                    std::pow(static_cast<long double>(a), static_cast<long double>(b)));
    }
  }
  test::print("f64 pow, wide", accuracy);
  EXPECT_LE(accuracy.max_ulp, 2) << "at " << accuracy.worst_input;
  EXPECT_EQ(accuracy.special_mismatches, 0U) << "at " << accuracy.mismatch_input;
}

TEST(MathF64Binary, Atan2StaysWithinTwoUlp) {
  measure(
      "atan2", [](double a, double b) { return scalar::ls_atan2(a, b); },
      [](long double a, long double b) { return std::atan2(a, b); });
}

TEST(MathF64Binary, HypotStaysWithinTwoUlp) {
  measure(
      "hypot", [](double a, double b) { return scalar::ls_hypot(a, b); },
      [](long double a, long double b) { return std::hypot(a, b); });
}

// Where the result is next to 0, log(e^a + e^b) is what cancellation leaves: in units of the operands' last place.
TEST(MathF64Binary, LogaddexpStaysWithinTwoUlpOfTheLargestMagnitude) {
  double worst = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const double scale = i % 2 == 0 ? 1 : 50;
    const double a = near_zero(2 * i) * scale;
    const double b = near_zero(2 * i + 1) * scale;
    const long double larger = std::max(a, b);
    const long double exact = larger + std::log1p(std::exp(-std::abs(static_cast<long double>(a) - b)));
    const long double size =
        std::max({std::abs(static_cast<long double>(a)), std::abs(static_cast<long double>(b)), std::abs(exact)});
    const auto error =
        static_cast<double>(std::abs(scalar::ls_logaddexp(a, b) - exact) / std::ldexp(1.0L, std::ilogb(size) - 52));
    worst = std::max(worst, error);
  }
  std::printf("f64 logaddexp: %.3f ulp\n", worst);
  EXPECT_LE(worst, 2);
  for (double x : kSpecial) {
    EXPECT_EQ(bits(scalar::ls_logaddexp(x, -kInfinity)), bits(x)) << x;
    EXPECT_EQ(bits(scalar::ls_logaddexp(kInfinity, x)), bits(x != x ? x : kInfinity)) << x;
  }
}

TEST(MathF64Binary, RemaindersAreExact) {
  const auto compare = [](double a, double b) {
    const double exact = std::fmod(a, b);
    ASSERT_EQ(bits(scalar::ls_fmod(a, b)), bits(exact)) << a << " " << b;
    const double shifted = exact != 0 && std::signbit(exact) != std::signbit(b) ? exact + b : exact;
    ASSERT_EQ(bits(scalar::ls_remainder(a, b)), bits(shifted)) << a << " " << b;
  };
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const double a = near_zero(2 * i);
    const double b = near_zero(2 * i + 1);
    compare(anywhere(2 * i), anywhere(2 * i + 1));
    compare(a, b);
    compare(a * 1e17, b);
    compare(a * 1e-308, b * 1e-310);
    compare(std::trunc(a * 100), std::trunc(b * 10));
  }
  for (double a : kSpecial) {
    for (double b : kSpecial) compare(a, b);
  }
  compare(std::numeric_limits<double>::max(), 5e-324 * 3);
}

TEST(MathF64Binary, FloorDivideIsTheLargestIntegerBelow) {
  const auto quotient = [](double a, double b) { return scalar::ls_floor_divide(a, b, a / b); };
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const double b = near_zero(2 * i + 1);
    for (double a : {near_zero(2 * i), near_zero(2 * i) * 1e6, b * std::trunc(near_zero(2 * i) * 1e3)}) {
      const double q = quotient(a, b);
      ASSERT_EQ(q, std::floor(q));
      const double above = std::fma(-q, b, a);  // a - q b, in [0, b)
      ASSERT_TRUE(above == 0 || (std::signbit(above) == std::signbit(b) && std::abs(above) < std::abs(b)))
          << a << " " << b;
    }
  }
  EXPECT_EQ(quotient(1, 0.1), 9);
  EXPECT_EQ(quotient(-1, 0.1), -10);
  EXPECT_EQ(quotient(-1, kInfinity), -1);
  EXPECT_EQ(quotient(1, 0.0), kInfinity);
  EXPECT_EQ(quotient(-kInfinity, 0.0), -kInfinity);
  EXPECT_EQ(bits(quotient(0.0, -2)), std::uint64_t{1} << 63);
  EXPECT_TRUE(std::isnan(quotient(kInfinity, 2)));
}

TEST(MathF64Binary, NextafterAndCopysignAreThoseOfTheCLibrary) {
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const double a = anywhere(2 * i);
    const double b = anywhere(2 * i + 1);
    ASSERT_EQ(bits(scalar::ls_nextafter(a, b)), bits(std::nextafter(a, b))) << a << " " << b;
    ASSERT_EQ(bits(scalar::ls_copysign(a, b)), bits(std::copysign(a, b))) << a << " " << b;
  }
  for (double a : kSpecial) {
    for (double b : kSpecial) ASSERT_EQ(bits(scalar::ls_nextafter(a, b)), bits(std::nextafter(a, b))) << a << " " << b;
  }
}

}  // namespace
}  // namespace lockstep
