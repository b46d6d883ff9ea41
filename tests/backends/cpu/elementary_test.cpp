// The f32 elementary functions, as the CPU's loops compute them, against double precision: a stratified sample of 2^24
// inputs here, all 2^32 in `make exhaustive` (on every core), and equal bits on every instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "backends/cpu/isa.h"
#include "backends/cpu/row/tables.h"
#include "core/fp_state.h"
#include "kernels/accuracy.h"
#include "kernels/sweep.h"

namespace lockstep {
namespace {

using test::mix;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::size_t kBlock = 4096;
constexpr std::uint64_t kInputs = std::uint64_t{1} << 32;

double exact_sigmoid(double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}
double exact_gelu(double x) {
  return std::isinf(x) && x < 0 ? -0.0 : x * 0.5 * std::erfc(-x * 0.70710678118654752440);
}
double exact_rsqrt(double x) {
  return 1 / std::sqrt(x);
}
double exact_lgamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}
double exact_digamma(double x) {
  if (x == 0) return std::copysign(INFINITY, -x);
  if (std::isinf(x)) return x < 0 ? std::nan("") : x;
  if (x < 0) {
    const double distance = x - std::nearbyint(x);
    if (distance == 0) return std::nan("");
    return exact_digamma(1 - x) - 3.14159265358979323846 / std::tan(3.14159265358979323846 * distance);
  }
  double sum = 0;
  for (; x < 14; x += 1) sum -= 1 / x;
  const double z = 1 / (x * x);
  return sum + (std::log(x) - 0.5 / x - z * (1 / 12.0 - z * (1 / 120.0 - z * (1 / 252.0 - z / 240.0))));
}
/// By Halley's method from the result of the function itself.
double exact_erfinv(double x) {
  const double a = std::abs(x);
  if (!(a < 1)) return a == 1 ? x * INFINITY : std::nan("");
  if (a < 1e-8) return x * 0.88622692545275801365;
  double y = static_cast<double>(scalar::ls_erfinv(static_cast<float>(a)));
  const double step = (a < 0.5 ? std::erf(y) - a : (1 - a) - std::erfc(y)) / (1.1283791670955126 * std::exp(-y * y));
  y -= step / (1 + y * step);
  return std::copysign(y, x);
}

struct Unary {
  Op op;
  double (*exact)(double);
  double bound;      ///< in units of the last place, stated in docs/numerics.md
  double least = 0;  ///< of results whose magnitude is below, the unit is that of this one (for negative inputs)
};

const Unary kUnary[] = {
    {Op::exp, std::exp, 0.88},          {Op::exp2, std::exp2, 0.8},
    {Op::expm1, std::expm1, 1.01},      {Op::log, std::log, 0.89},
    {Op::log2, std::log2, 1.01},        {Op::log10, std::log10, 0.91},
    {Op::log1p, std::log1p, 0.95},      {Op::sin, std::sin, 0.76},
    {Op::cos, std::cos, 0.75},          {Op::tan, std::tan, 0.9},
    {Op::asin, std::asin, 0.7},         {Op::acos, std::acos, 0.7},
    {Op::atan, std::atan, 1.01},        {Op::sinh, std::sinh, 0.8},
    {Op::cosh, std::cosh, 0.75},        {Op::tanh, std::tanh, 0.79},
    {Op::asinh, std::asinh, 0.95},      {Op::acosh, std::acosh, 0.9},
    {Op::atanh, std::atanh, 0.95},      {Op::sigmoid, exact_sigmoid, 0.69},
    {Op::erf, std::erf, 1.0},           {Op::erfc, std::erfc, 0.85},
    {Op::erfinv, exact_erfinv, 1.1},    {Op::gelu_erf, exact_gelu, 1.71},
    {Op::lgamma, exact_lgamma, 4.4, 1}, {Op::digamma, exact_digamma, 22, 8},
    {Op::rsqrt, exact_rsqrt, 0.5001},
};

ElementwiseFn loop_of(Op op, Isa isa) {
  return elementwise_table(isa).op[index_of(op)][index_of(ComputeType::f32)][0];
}

struct Result {
  double max_ulp = 0, sum_ulp = 0;
  std::uint64_t compared = 0, above_half = 0, mismatches = 0;
  float worst = 0, mismatch = 0;

  void add(const Unary& function, float x, float y) {
    const double exact = function.exact(static_cast<double>(x));
    const float rounded = scalar::canonical(static_cast<float>(exact));
    if (!std::isfinite(rounded) || !std::isfinite(y) || rounded == 0 || y == 0) {
      const bool at_the_edge = rounded * y == 0 && std::signbit(rounded) == std::signbit(y) &&
                               std::abs(std::abs(exact) * 0x1p126 - 1) < 0x1p-20;
      if (BITS(rounded) != BITS(y) && !at_the_edge && ++mismatches == 1) mismatch = x;
      return;
    }
    const double size = std::max(std::abs(exact), std::signbit(x) ? function.least : 0.0);
    // 2^(23 - exponent)
    const std::uint64_t exponent = std::bit_cast<std::uint64_t>(size) >> 52;
    const double per_ulp = std::bit_cast<double>((std::uint64_t{2046 + 23} - exponent) << 52);
    const double error = std::abs(static_cast<double>(y) - exact) * per_ulp;
    ++compared;
    sum_ulp += error;
    if (error > 0.5) ++above_half;
    if (error > max_ulp) {
      max_ulp = error;
      worst = x;
    }
  }
  void add(const Result& other) {
    compared += other.compared;
    sum_ulp += other.sum_ulp;
    above_half += other.above_half;
    if (other.mismatches != 0) mismatch = other.mismatch;
    mismatches += other.mismatches;
    if (other.max_ulp > max_ulp) {
      max_ulp = other.max_ulp;
      worst = other.worst;
    }
  }
  double mean() const { return compared == 0 ? 0 : sum_ulp / static_cast<double>(compared); }
};

/// Calls use(inputs, results, n) for the operands among input_of(i), i in [begin, end), block by block.
template <typename InputOf, typename Use>
void evaluate(Op op, Isa isa, std::uint64_t begin, std::uint64_t end, InputOf input_of, Use use) {
  std::vector<float> x(kBlock), y(kBlock);
  const ElementwiseFn loop = loop_of(op, isa);
  for (std::uint64_t i = begin; i < end; i += kBlock) {
    const std::size_t n = std::min<std::uint64_t>(kBlock, end - i);
    for (std::size_t k = 0; k < n; ++k) x[k] = scalar::operand_f32(FROM_BITS(input_of(i + k)));
    loop(y.data(), x.data(), nullptr, nullptr, n);
    use(x.data(), y.data(), n);
  }
}

std::uint64_t hash_of(const float* x, const float* y, std::size_t n) {
  std::uint64_t sum = 0;
  for (std::size_t k = 0; k < n; ++k) sum += hash_of_result(BITS(x[k]), BITS(y[k]));
  return sum;
}

/// One input of each of 2^24 strata of 256 neighbours.
std::uint32_t sample(std::uint64_t i) {
  return static_cast<std::uint32_t>(i << 8 | (mix(i) & 0xff));
}

class ElementaryFunction : public testing::TestWithParam<Unary> {};
INSTANTIATE_TEST_SUITE_P(F32, ElementaryFunction, testing::ValuesIn(kUnary),
                         [](const auto& param_info) { return std::string(info_of(param_info.param.op).name); });

void expect_within_bound(const Unary& function, const Result& result) {
  EXPECT_LE(result.max_ulp, function.bound) << "at " << result.worst;
  EXPECT_EQ(result.mismatches, 0U) << "of special values, e.g. at " << result.mismatch;
}

void print(const Unary& function, const Result& result) {
  std::printf(
      "| %s | %.4f | %.4f | %.3g %% | %.9g |", info_of(function.op).name, result.max_ulp, result.mean(),
      100.0 * static_cast<double>(result.above_half) / static_cast<double>(std::max<std::uint64_t>(1, result.compared)),
      static_cast<double>(result.worst));
}

TEST_P(ElementaryFunction, StaysWithinItsBound) {
  Result result;
  evaluate(GetParam().op, available_isas().back(), 0, 1 << 24, sample,
           [&](const float* x, const float* y, std::size_t n) {
             for (std::size_t k = 0; k < n; ++k) result.add(GetParam(), x[k], y[k]);
           });
  print(GetParam(), result);
  std::printf("\n");
  expect_within_bound(GetParam(), result);
}

constexpr std::uint64_t kFlushing = 0x9fc0;  // MXCSR with FTZ and DAZ
constexpr std::uint64_t kKeeping = 0x1f80;

TEST_P(ElementaryFunction, HasTheSameBitsOnEveryInstructionSetFlushingOrNot) {
  const auto hash = [&](Isa isa, std::uint64_t step) {
    std::uint64_t sum = 0;
    evaluate(
        GetParam().op, isa, 0, kInputs / step, [&](std::uint64_t i) { return static_cast<std::uint32_t>(i * step); },
        [&](const float* x, const float* y, std::size_t n) { sum += hash_of(x, y, n); });
    return sum;
  };
  const std::uint64_t expected = hash(Isa::scalar, 32749);
  for (const Isa isa : available_isas()) EXPECT_EQ(hash(isa, 32749), expected) << name_of(isa);
#ifdef __x86_64__
  const Isa best = available_isas().back();
  const std::uint64_t kept = hash(best, 4093);
  const std::uint64_t found = FloatingPointScope::control_word();
  FloatingPointScope::set_control_word(kFlushing);
  const std::uint64_t flushed = hash(best, 4093);
  FloatingPointScope::set_control_word(found);
  EXPECT_EQ(kept, flushed);
#endif
}

/// Runs work(begin, end) over all inputs on every core, with a line of progress.
void over_all_inputs(const char* name, const std::function<void(std::uint64_t, std::uint64_t)>& work) {
  constexpr std::uint64_t part = std::uint64_t{1} << 22;
  std::atomic<std::uint64_t> next = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1U, std::thread::hardware_concurrency()); ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t begin = next.fetch_add(part); begin < kInputs; begin = next.fetch_add(part)) {
        work(begin, begin + part);
        if (t == 0) std::fprintf(stderr, "\r%-10s %3d %%", name, static_cast<int>(100 * begin / kInputs));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::fprintf(stderr, "\r                \r");
}

// Every instruction set with vectors over all inputs, and the best one with flushing; scalar code over every 64th
// block.
TEST_P(ElementaryFunction, DISABLED_ExhaustiveStaysWithinItsBoundWithTheSameBitsEverywhere) {
  const Unary& function = GetParam();
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Isa>& isas = available_isas();
  const auto input = [](std::uint64_t i) { return static_cast<std::uint32_t>(i); };
  Result total;
  std::vector<std::uint64_t> hashes(isas.size() + 2);  // and flushing; and the best one of what scalar code ran
  std::mutex mutex;
  over_all_inputs(info_of(function.op).name, [&](std::uint64_t begin, std::uint64_t end) {
    Result result;
    std::vector<std::uint64_t> sums(hashes.size());
    const std::uint64_t few = begin + (end - begin) / 64;
    for (std::size_t i = 0; i < isas.size(); ++i) {
      const bool best = i + 1 == isas.size();
      const auto use = [&](const float* x, const float* y, std::size_t n) {
        sums[i] += hash_of(x, y, n);
        for (std::size_t k = 0; best && k < n; ++k) result.add(function, x[k], y[k]);
      };
      evaluate(function.op, isas[i], begin, isas[i] == Isa::scalar ? few : end, input, use);
    }
    evaluate(function.op, isas.back(), begin, few, input,
             [&](const float* x, const float* y, std::size_t n) { sums[isas.size() + 1] += hash_of(x, y, n); });
#ifdef __x86_64__
    FloatingPointScope::set_control_word(kFlushing);
#endif
    evaluate(function.op, isas.back(), begin, end, input,
             [&](const float* x, const float* y, std::size_t n) { sums[isas.size()] += hash_of(x, y, n); });
#ifdef __x86_64__
    FloatingPointScope::set_control_word(kKeeping);
#endif
    const std::lock_guard lock(mutex);
    total.add(result);
    for (std::size_t i = 0; i < sums.size(); ++i) hashes[i] += sums[i];
  });
  print(function, total);
  for (std::size_t i = 0; i < isas.size(); ++i) {
    std::printf(" %s %016llx |", std::string(name_of(isas[i])).c_str(), static_cast<unsigned long long>(hashes[i]));
    const std::uint64_t expected = isas[i] == Isa::scalar && isas.size() > 1 ? hashes.back() : hashes[isas.size() - 1];
    EXPECT_EQ(hashes[i], expected) << name_of(isas[i]);
  }
  EXPECT_EQ(hashes[isas.size()], hashes[isas.size() - 1]) << "with flushing of subnormals";
  std::printf(" %.0f s |\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  std::fflush(stdout);
  expect_within_bound(function, total);
}

TEST_P(ElementaryFunction, NanGivesTheOneNan) {
  for (const std::uint32_t bits : {0x7fc00000U, 0xffc00000U, 0x7f800001U, 0xffffffffU}) {
    const float x = FROM_BITS(bits);
    float y = 0;
    loop_of(GetParam().op, available_isas().back())(&y, &x, nullptr, nullptr, 1);
    EXPECT_EQ(BITS(y), 0x7fc00000U);
  }
}

// --- two operands ----------------------------------------------------------------------------------------------------

struct Binary {
  Op op;
  double (*exact)(double, double);
  double bound;
  bool of_operands = false;  ///< the unit is that of the largest of the result, the operands and 1
};

double exact_logaddexp(double a, double b) {
  const double larger = std::max(a, b);
  if (std::isnan(a) || std::isnan(b)) return std::nan("");
  if (std::isinf(larger)) return larger;
  return larger + std::log1p(std::exp(std::min(a, b) - larger));
}
/// PyTorch's: std::fmod is exact, and one sum rounds.
double exact_remainder(double a, double b) {
  const double rest = static_cast<double>(std::fmod(static_cast<float>(a), static_cast<float>(b)));
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
double exact_floor_divide(double a, double b) {
  if (b == 0) return a / b;
  if (std::isinf(a) || std::isnan(a) || std::isnan(b)) return std::nan("");
  if (std::abs(a) < std::abs(b)) return a != 0 && std::signbit(a) != std::signbit(b) ? -1.0 : std::copysign(0.0, a / b);
  return static_cast<double>(std::floor(static_cast<long double>(a) / static_cast<long double>(b)));
}

const Binary kBinary[] = {
    {Op::pow, std::pow, 0.7},
    {Op::atan2, std::atan2, 1.05},
    {Op::hypot, std::hypot, 0.51},
    {Op::logaddexp, exact_logaddexp, 0.85, true},
    {Op::fmod, std::fmod, 0.0},
    {Op::remainder, exact_remainder, 0.5},
    {Op::floor_divide, exact_floor_divide, 1.0},
};

class ElementaryFunctionOfTwo : public testing::TestWithParam<Binary> {};
INSTANTIATE_TEST_SUITE_P(F32, ElementaryFunctionOfTwo, testing::ValuesIn(kBinary),
                         [](const auto& param_info) { return std::string(info_of(param_info.param.op).name); });

/// Special values with each other; words; values near 1, of like size, and where a power nearly overflows.
void pairs(std::vector<float>& a, std::vector<float>& b) {
  const auto add = [&](float x, float y) {
    a.push_back(scalar::operand_f32(x));
    b.push_back(scalar::operand_f32(y));
  };
  const float special[] = {0.0F,
                           -0.0F,
                           0.1F,
                           0.5F,
                           -0.5F,
                           1.0F,
                           -1.0F,
                           2.0F,
                           -2.0F,
                           2.5F,
                           -2.5F,
                           3.0F,
                           -3.0F,
                           1e-30F,
                           1e30F,
                           16777215.0F,
                           -16777215.0F,
                           16777217.0F,
                           8388609.0F,
                           3.4e38F,
                           -3.4e38F,
                           kInfinity,
                           -kInfinity,
                           std::nanf(""),
                           0x1.000002p-126F,
                           -0x1.000002p-126F,
                           0x1.fffffep-1F,
                           0x1.000002p0F};
  for (const float x : special) {
    for (const float y : special) add(x, y);
  }
  for (std::uint64_t i = 0; i < 250'000; ++i) {
    const std::uint64_t w = mix(i);
    const std::uint64_t v = w >> 32;
    add(FROM_BITS(w), FROM_BITS(v));
    add(FROM_BITS(w & 0x7fffffff), FROM_BITS((v & 0x83ffffff) | 0x3c000000));
    add(FROM_BITS((w & 0x83ffffff) | 0x40000000), FROM_BITS((v & 0x83ffffff) | 0x40000000));
    add(FROM_BITS((w & 0x80ffffff) | 0x3f000000), FROM_BITS((v & 0x80ffffff) | 0x3f000000));
    const float x = FROM_BITS((w & 0x00ffffff) | 0x3f000000);
    const float exponent = static_cast<float>(v % 180) - 90.0F;
    if (x != 1.0F) add(x, exponent / std::log(x));
    add(static_cast<float>(w % 1000) * 0.25F, static_cast<float>(v % 100) * 0.25F);
  }
}

TEST_P(ElementaryFunctionOfTwo, StaysWithinItsBoundWithTheSameBitsEverywhere) {
  const Binary& function = GetParam();
  std::vector<float> a, b;
  pairs(a, b);
  std::vector<float> results(a.size()), scalars(a.size());
  const Isa best = available_isas().back();
  loop_of(function.op, best)(results.data(), a.data(), b.data(), nullptr, a.size());
  double worst = 0;
  std::size_t worst_at = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double exact = function.exact(static_cast<double>(a[i]), static_cast<double>(b[i]));
    const float rounded = scalar::canonical(static_cast<float>(exact));
    if (!std::isfinite(rounded) || rounded == 0 || !std::isfinite(results[i]) || results[i] == 0) {
      const bool at_the_edge = std::abs(std::abs(exact) * 0x1p126 - 1) < 0x1p-20 || function.of_operands;
      if (!at_the_edge) {
        ASSERT_EQ(BITS(results[i]), BITS(rounded)) << a[i] << ", " << b[i];
      }
      continue;
    }
    double size = std::abs(exact);
    if (function.of_operands) size = std::max({size, 1.0, static_cast<double>(std::abs(a[i]))});
    const double error = std::abs(static_cast<double>(results[i]) - exact) / std::ldexp(1.0, std::ilogb(size) - 23);
    if (error > worst) {
      worst = error;
      worst_at = i;
    }
  }
  std::printf("| %s | %.4f | %.9g, %.9g |\n", info_of(function.op).name, worst, static_cast<double>(a[worst_at]),
              static_cast<double>(b[worst_at]));
  EXPECT_LE(worst, function.bound) << "at " << a[worst_at] << ", " << b[worst_at];
  for (const Isa isa : available_isas()) {
    const std::size_t n = isa == Isa::scalar ? 100'000 : a.size();
    loop_of(function.op, isa)(scalars.data(), a.data(), b.data(), nullptr, n);
    for (std::size_t i = 0; i < n; ++i)
      ASSERT_EQ(BITS(scalars[i]), BITS(results[i])) << name_of(isa) << a[i] << ", " << b[i];
  }
  // One operand a single value.
  const auto& variants = elementwise_table(best).op[index_of(function.op)][index_of(ComputeType::f32)];
  const std::vector<float> same(1000, a[2000]);
  variants[1](scalars.data(), same.data(), b.data(), nullptr, 1000);
  variants[0](results.data(), same.data(), b.data(), nullptr, 1000);
  for (std::size_t i = 0; i < 1000; ++i) ASSERT_EQ(BITS(scalars[i]), BITS(results[i]));
  variants[2](scalars.data(), a.data(), same.data(), nullptr, 1000);
  variants[0](results.data(), a.data(), same.data(), nullptr, 1000);
  for (std::size_t i = 0; i < 1000; ++i) ASSERT_EQ(BITS(scalars[i]), BITS(results[i]));
}

// --- by name ---------------------------------------------------------------------------------------------------------

TEST(ElementarySpecialValues, OfPowersAreThoseOfAnnexF) {
  const auto power = [](float a, float b) { return scalar::canonical(scalar::ls_pow(a, b)); };
  EXPECT_EQ(power(std::nanf(""), 0.0F), 1.0F);
  EXPECT_EQ(power(1.0F, std::nanf("")), 1.0F);
  EXPECT_EQ(power(-1.0F, kInfinity), 1.0F);
  EXPECT_EQ(power(-0.0F, -3.0F), -kInfinity);
  EXPECT_EQ(power(-kInfinity, 3.0F), -kInfinity);
  EXPECT_EQ(BITS(power(-kInfinity, -3.0F)), 0x80000000U);
  EXPECT_TRUE(std::isnan(power(-2.0F, 0.5F)));
  EXPECT_EQ(power(-2.0F, 3.0F), -8.0F);
}

TEST(ElementarySpecialValues, OfTheGammaFamily) {
  EXPECT_EQ(BITS(scalar::ls_lgamma(1.0F)), 0U);
  EXPECT_EQ(BITS(scalar::ls_lgamma(2.0F)), 0U);
  EXPECT_EQ(scalar::ls_lgamma(-3.0F), kInfinity);
  EXPECT_EQ(scalar::ls_lgamma(-kInfinity), kInfinity);
  EXPECT_EQ(scalar::ls_digamma(0.0F), -kInfinity);
  EXPECT_EQ(scalar::ls_digamma(-0.0F), kInfinity);
  EXPECT_TRUE(std::isnan(scalar::ls_digamma(-2.0F)));
  EXPECT_EQ(scalar::ls_erfinv(-1.0F), -kInfinity);
}

TEST(ElementarySpecialValues, NeighboursAreCanonical) {
  const auto next = [](float a, float b) { return BITS(scalar::canonical(scalar::ls_nextafter(a, b))); };
  EXPECT_EQ(next(0.0F, 1.0F), 0x00800001U);
  EXPECT_EQ(next(FROM_BITS(0x00800001U), 0.0F), 0U);
  EXPECT_EQ(next(1.0F, -kInfinity), 0x3f7fffffU);
  EXPECT_EQ(next(-1.0F, 0.0F), 0xbf7fffffU);
  EXPECT_EQ(next(3.4028234e38F, kInfinity), 0x7f800000U);
}

TEST(ElementarySpecialValues, OfIntegerDivisionAndShifts) {
  constexpr int lowest = std::numeric_limits<int>::min();
  EXPECT_EQ(scalar::wrap_floor_divide(7, 0), 0);
  EXPECT_EQ(scalar::wrap_remainder(7, 0), 0);
  EXPECT_EQ(scalar::wrap_fmod(7, 0), 0);
  EXPECT_EQ(scalar::wrap_floor_divide(lowest, -1), lowest);
  EXPECT_EQ(scalar::wrap_remainder(lowest, -1), 0);
  EXPECT_EQ(scalar::wrap_floor_divide(-7, 2), -4);
  EXPECT_EQ(scalar::wrap_remainder(-7, 2), 1);
  EXPECT_EQ(scalar::wrap_fmod(-7, 2), -1);
  EXPECT_EQ(scalar::wrap_pow(-3, 3), -27);
  EXPECT_EQ(scalar::wrap_pow(2, -1), 0);
  EXPECT_EQ(scalar::wrap_pow(-1, -3), -1);
  EXPECT_EQ(scalar::wrap_shift_left(1, 32), 0);
  EXPECT_EQ(scalar::wrap_shift_left(1, -1), 0);
  EXPECT_EQ(scalar::wrap_shift_right(-5, 40), -1);
  EXPECT_EQ(scalar::wrap_shift_right(5, -1), 0);
}

}  // namespace
}  // namespace lockstep
