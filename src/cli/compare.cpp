#include "cli/compare.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

std::string index_text(std::int64_t flat, const Shape& shape) {
  Shape index = shape;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    index[d] = flat % shape[d];
    flat /= shape[d];
  }
  return index.to_string();
}

double error_of(double actual, double expected) {
  if (actual == expected || (std::isnan(actual) && std::isnan(expected))) return 0;
  const double error = std::fabs(actual - expected);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

template <typename T>
Comparison compare_elements(const std::vector<T>& actual, const std::vector<T>& expected, const Shape& shape,
                            double tolerance) {
  Comparison result;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] == expected[i]) continue;
    const double error = error_of(static_cast<double>(actual[i]), static_cast<double>(expected[i]));
    if (error > result.max_error) result.max_error = error;
    // Unequal integers may be equal as doubles: they differ all the same.
    const bool agrees = std::is_floating_point_v<T> && error <= tolerance;
    if (agrees || !result.pass) continue;
    result.pass = false;
    result.difference =
        fmt::format("{}: {} instead of {}", index_text(static_cast<std::int64_t>(i), shape), actual[i], expected[i]);
  }
  return result;
}

}  // namespace

Comparison compare(const Tensor& actual, const Tensor& expected, double tolerance) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (actual.dtype() != expected.dtype()) {
    return {false, infinity, fmt::format("{} instead of {}", name_of(actual.dtype()), name_of(expected.dtype()))};
  }
  if (actual.shape() != expected.shape()) {
    return {false, infinity,
            fmt::format("shape {} instead of {}", actual.shape().to_string(), expected.shape().to_string())};
  }
  // Both casts are exact. Not every device holds f64.
  if (is_float(expected.dtype())) {
    return compare_elements(actual.to(Device{}).to(DType::f64).to_vector<double>(), expected.to(DType::f64).to_vector<double>(),
                            expected.shape(), tolerance);
  }
  return compare_elements(actual.to(DType::i64).to_vector<std::int64_t>(),
                          expected.to(DType::i64).to_vector<std::int64_t>(), expected.shape(), tolerance);
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
