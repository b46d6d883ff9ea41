// lgamma and digamma in f64. Away from the roots of negative arguments they are within 2 ulp; next to those within 2
// ulp of 1, which is what the table tests.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/accuracy.h"

namespace lockstep {
namespace {

using test::Accuracy;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::uint64_t kNan = 0x7ff8000000000000U;

/// The recurrence up to 40, then the asymptotic series.
long double exact_digamma(long double x) {
  if (x < 0)
    return exact_digamma(1 - x) -
           std::numbers::pi_v<long double> / std::tan(std::numbers::pi_v<long double> * (x - std::round(x)));
  long double sum = 0;
  for (; x < 40; x += 1) sum -= 1 / x;
  const long double w = 1 / (x * x);
  const long double series =
      w * (1 / 12.0L -
           w * (1 / 120.0L - w * (1 / 252.0L - w * (1 / 240.0L - w * (1 / 132.0L - w * (691 / 32760.0L - w / 12))))));
  return sum + std::log(x) - 0.5L / x - series;
}

struct Range {
  double low;
  double high;
  double smallest;  ///< a smaller result counts as large as this: its last place is the unit of the error
};

/// The largest error over a range, evenly sampled.
template <typename Function, typename Exact> double worst_error(Function function, Exact exact, const Range& range) {
  double worst = 0;
  for (std::uint64_t i = 0; i < 1U << 16; ++i) {
    const double x = range.low + (range.high - range.low) * static_cast<double>(test::mix(i) >> 11) * 0x1p-53;
    const long double truth = exact(static_cast<long double>(x));
    const int exponent = std::ilogb(std::max(std::abs(truth), static_cast<long double>(range.smallest)));
    const auto error = static_cast<double>(std::abs(function(x) - truth) / std::ldexp(1.0L, exponent - 52));
    worst = std::max(worst, error);
  }
  return worst;
}

TEST(GammaFamilyF64, LgammaStaysWithinTwoUlp) {
  const auto exact = [](long double x) { return std::lgamma(x); };
  const auto function = [](double x) { return scalar::ls_lgamma(x); };
  for (const Range& range : {Range{0, 3, 0}, Range{0.99, 1.01, 0}, Range{1.99, 2.01, 0}, Range{2.5, 20, 0},
                             Range{0, 1e5, 0}, Range{-20, 0, 1}, Range{-1e4, -20, 1}}) {
    const double worst = worst_error(function, exact, range);
    std::printf("lgamma [%g, %g]: %.3f ulp\n", range.low, range.high, worst);
    EXPECT_LE(worst, 2) << range.low;
  }
}

TEST(GammaFamilyF64, DigammaStaysWithinTwoUlp) {
  const auto function = [](double x) { return scalar::ls_digamma(x); };
  for (const Range& range : {Range{0, 1.4, 0}, Range{1.4, 1.5, 0.015625}, Range{1.5, 20, 0}, Range{20, 1e5, 0},
                             Range{-20, 0, 1}, Range{-1e4, -20, 1}}) {
    const double worst = worst_error(function, exact_digamma, range);
    std::printf("digamma [%g, %g]: %.3f ulp\n", range.low, range.high, worst);
    EXPECT_LE(worst, 2) << range.low;
  }
}

struct Point {
  double x;
  double exact;
};

// The doubles next to the roots, next to 1, 2 and 8, and far ones: from mpmath in 60 digits.
constexpr Point kLgamma[] = {
    {-0x1.3a7fc9600f86cp+1, 0x1.0323b6d1fe86dp-54},     {-0x1.5fb410a1bd901p+1, 0x1.8fb8530ba7689p-53},
    {-0x1.9260dbc9e59afp+1, 0x1.e9605e3ae7a62p-50},     {-0x1.fa471547c2fe5p+1, -0x1.ddc0336980b58p-52},
    {-0x1.0284e78599581p+2, -0x1.982d05a2f456bp-48},    {-0x1.3f7577a6eeafdp+2, 0x1.3e8f4cd45ea7bp-46},
    {-0x1.0000000000000p-1, 0x1.43f89a3f0edd6p+0},      {-0x1.8000000000000p+0, 0x1.b858151820f86p-1},
    {-0x1.4000000000000p+1, -0x1.ccbf9f5ed0f16p-5},     {-0x1.5000000000000p+3, -0x1.e4b670d05976ap+3},
    {-0x1.5480000000000p+7, -0x1.612eed9b06b62p+9},     {0x1.0000000001000p+0, -0x1.2788cfc6f9bc7p-41},
    {0x1.ffffffffff000p+0, -0x1.b0ee607207f2bp-42},     {0x1.0000000000001p+0, -0x1.2788cfc6fb617p-53},
    {0x1.fffffffffffffp+0, -0x1.b0ee6072093cdp-54},     {0x1.ffffff94a0359p+2, 0x1.10ce1ec6a5ff0p+3},
    {0x1.0000000000000p+3, 0x1.10ce1f32dcc30p+3},       {0x1.56e1fc2f8f359p-997, 0x1.5963447f87fb5p+9},
    {-0x1.56e1fc2f8f359p-997, 0x1.5963447f87fb5p+9},    {0x1.23a516e82d9bap+1013, 0x1.8f7797fbe814ep+1022},
    {0x1.6c8e5ca239029p+1014, 0x1.f3fc83052cbf4p+1023},
};
constexpr Point kDigamma[] = {
    {0x1.762d86356be3fp+0, -0x1.aa2d9b3ce29e0p-54},  {0x1.762d86356be40p+0, 0x1.1a5beef0723bbp-53},
    {-0x1.02172b05ee260p-1, 0x1.502e5780c52dap-54},  {-0x1.02172b05ee261p-1, -0x1.090feef54e8fbp-50},
    {-0x1.92d0cbc289d4ap+0, 0x1.68dc0bb58132fp-53},  {-0x1.92d0cbc289d4bp+0, -0x1.2793206e4c2ecp-49},
    {-0x1.4e2c19f679e5ap+1, -0x1.34fdacb52af39p-50}, {-0x1.4e2c19f679e5bp+1, -0x1.a864ed9d66355p-48},
    {-0x1.d1514b041b2a8p+1, -0x1.6e558890267e6p-51}, {-0x1.d1514b041b2a9p+1, -0x1.a29f2fd9b1194p-48},
    {0x1.0000000000000p+0, -0x1.2788cfc6fb619p-1},   {0x1.8000000000000p+0, 0x1.2aed059bd608ap-5},
    {0x1.0000000000000p+1, 0x1.b0ee6072093cep-2},    {0x1.0000000400000p+0, -0x1.2788cfb9d28e6p-1},
    {0x1.0000000000000p-2, -0x1.0e8e9943cd7c3p+2},   {0x1.ffffff94a0359p+2, 0x1.02008a1d8c9cep+1},
    {0x1.0000000000000p+3, 0x1.02008a3a23e5dp+1},    {0x1.56e1fc2f8f359p-997, -0x1.7e43c8800759bp+996},
    {0x1.7e43c8800759cp+996, 0x1.5963447f87fb5p+9},  {-0x1.0000000000000p-1, 0x1.2aed059bd608ap-5},
    {-0x1.79ca10c924223p-67, 0x1.5af1d78b58c40p+66}, {-0x1.4800000000000p+3, 0x1.6114355684b8dp+2},
    {-0x1.5580000000000p+7, 0x1.00323dc91ea30p+1},   {-0x1.0000000001000p+0, 0x1.00000000006c4p+40},
};

template <typename Function> void compare(Function function, const Point& point) {
  const double unit = std::ldexp(1.0, std::ilogb(std::max(std::abs(point.exact), point.x < 0 ? 1.0 : 0.0)) - 52);
  EXPECT_LE(std::abs(function(point.x) - point.exact), 2 * unit) << point.x;
}

TEST(GammaFamilyF64, HardPoints) {
  for (const Point& point : kLgamma) compare([](double x) { return scalar::ls_lgamma(x); }, point);
  for (const Point& point : kDigamma) compare([](double x) { return scalar::ls_digamma(x); }, point);
}

TEST(GammaFamilyF64, SpecialValuesAreThoseOfPyTorch) {
  EXPECT_EQ(BITS64(scalar::ls_lgamma(1.0)), 0U);
  EXPECT_EQ(BITS64(scalar::ls_lgamma(2.0)), 0U);
  for (double pole : {0.0, -0.0, -1.0, -2.0, -1e20, kInfinity, -kInfinity, 1e308})
    EXPECT_EQ(scalar::ls_lgamma(pole), kInfinity) << pole;
  EXPECT_EQ(BITS64(scalar::ls_lgamma(FROM_BITS64(0xfff0000000000001U))), kNan);
  EXPECT_EQ(scalar::ls_lgamma(5e-324), -scalar::ls_log(5e-324));
  EXPECT_EQ(scalar::ls_digamma(0.0), -kInfinity);
  EXPECT_EQ(scalar::ls_digamma(-0.0), kInfinity);
  EXPECT_EQ(scalar::ls_digamma(kInfinity), kInfinity);
  EXPECT_EQ(scalar::ls_digamma(-5e-324), kInfinity);
  EXPECT_EQ(scalar::ls_digamma(1e308), scalar::ls_log(1e308));
  for (double pole : {-1.0, -2.0, -1e20, -kInfinity, std::nan("")})
    EXPECT_EQ(BITS64(scalar::ls_digamma(pole)), kNan) << pole;
}

}  // namespace
}  // namespace lockstep
