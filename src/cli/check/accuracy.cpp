#include "cli/check/accuracy.h"

#include <algorithm>
#include <cmath>

#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

constexpr int kParts = 64;

struct Elementary {
  const char* name;
  Tensor (*ours)(const Operand&);
  double (*truth)(double);
  double least, most;
};

double sigmoid_of(double x) {
  return 1 / (1 + std::exp(-x));
}
double rsqrt_of(double x) {
  return 1 / std::sqrt(x);
}

// Where the functions have values and their results are neither all alike nor subnormal.
const Elementary kElementary[] = {
    {"exp", exp, std::exp, -87, 88},           {"exp2", exp2, std::exp2, -126, 127.9},
    {"expm1", expm1, std::expm1, -17, 88},     {"log", log, std::log, 1e-4, 16},
    {"log1p", log1p, std::log1p, -0.99, 16},   {"log2", log2, std::log2, 1e-4, 16},
    {"log10", log10, std::log10, 1e-4, 16},    {"sin", sin, std::sin, -31.4, 31.4},
    {"cos", cos, std::cos, -31.4, 31.4},       {"tan", tan, std::tan, -31.4, 31.4},
    {"asin", asin, std::asin, -1, 1},          {"acos", acos, std::acos, -1, 1},
    {"atan", atan, std::atan, -16, 16},        {"sinh", sinh, std::sinh, -88, 88},
    {"cosh", cosh, std::cosh, -88, 88},        {"tanh", tanh, std::tanh, -10, 10},
    {"asinh", asinh, std::asinh, -64, 64},     {"acosh", acosh, std::acosh, 1, 64},
    {"atanh", atanh, std::atanh, -0.99, 0.99}, {"erf", erf, std::erf, -4, 4},
    {"erfc", erfc, std::erfc, -4, 9},          {"sigmoid", sigmoid, sigmoid_of, -80, 20},
    {"sqrt", sqrt, std::sqrt, 0, 16},          {"rsqrt", rsqrt, rsqrt_of, 1e-4, 16},
};

double ulps_between(float value, double truth) {
  if (static_cast<double>(value) == truth) return 0;
  const int exponent = std::max(std::ilogb(truth), -126);
  return std::abs(static_cast<double>(value) - truth) / std::ldexp(1.0, exponent - 23);
}

}  // namespace

std::vector<AccuracyCurve> accuracy_curves(Device device) {
  std::vector<AccuracyCurve> curves;
  for (const Elementary& function : kElementary) {
    std::vector<float> arguments;
    for (int i = 0; i < kParts * kAccuracySamples; ++i) {
      const double t = (i + 0.5) / (kParts * kAccuracySamples);
      arguments.push_back(static_cast<float>(function.least + t * (function.most - function.least)));
    }
    const Tensor x = Tensor::from(arguments, {static_cast<std::int64_t>(arguments.size())}, device);
    const std::vector<float> results = function.ours(x).to_vector<float>();
    AccuracyCurve curve{.function = function.name, .least = function.least, .most = function.most, .errors = {}};
    for (int part = 0; part < kParts; ++part) {
      double largest = 0;
      for (int i = part * kAccuracySamples; i < (part + 1) * kAccuracySamples; ++i) {
        const auto at = static_cast<std::size_t>(i);
        largest = std::max(largest, ulps_between(results[at], function.truth(static_cast<double>(arguments[at]))));
      }
      curve.errors.push_back(largest);
      curve.largest = std::max(curve.largest, largest);
    }
    curves.push_back(std::move(curve));
  }
  return curves;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
