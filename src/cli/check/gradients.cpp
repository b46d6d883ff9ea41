#include "cli/check/gradients.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/random.h>

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

// Ops whose results some callers read and none differentiates: running statistics. They are not tracked.
constexpr const char* kWithConstantResults[] = {"batch_norm_training", "instance_norm_training"};

bool has_constant_results(const std::string& op) {
  return std::find(std::begin(kWithConstantResults), std::end(kWithConstantResults), op) !=
         std::end(kWithConstantResults);
}

// Differences and what they may differ by, for results of a dtype: where results are rounded, only long steps show.
struct Precision {
  double step;
  double bound;
};
Precision precision_of(const Tensors& results) {
  Precision precision{1e-5, kGradientBound};
  for (const Tensor& result : results) {
    if (result.dtype() == DType::f64) continue;
    const Precision here = result.dtype() == DType::f32 ? Precision{0x1p-6, 1e-3} : Precision{0x1p-2, 0.05};
    if (here.bound > precision.bound) precision = here;
  }
  return precision;
}

std::vector<double> weights_of(const Tensor& result, std::size_t position) {
  return generic_values(static_cast<std::size_t>(result.numel()), 1001 + position, -1, 1);
}

// The float results of a call, and what they were computed from.
struct Call {
  Tensors results;
  std::vector<Leaf> leaves;
};

Call call(const CheckOp& op, const Slope& slope, const Point& point, Device device) {
  manual_seed(42);
  Probe probe(slope, point, device);
  Call made;
  for (const Tensor& result : op.run(probe)) {
    if (is_float(result.dtype())) made.results.push_back(result);
  }
  made.leaves = probe.leaves();
  return made;
}

struct Sum {
  long double value = 0;
  long double magnitude = 0;
};
Sum weighted_sum(const Tensors& results, const std::vector<bool>& counts) {
  Sum sum;
  for (std::size_t r = 0; r < results.size(); ++r) {
    if (!counts[r]) continue;
    const std::vector<double> weights = weights_of(results[r], r);
    const std::vector<double> values = results[r].to(DType::f64).to_vector<double>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const long double term = static_cast<long double>(values[i]) * weights[i];
      sum.value += term;
      sum.magnitude += std::fabs(term);
    }
  }
  return sum;
}

// The slope along the directions of the leaves.
Sum slope_of(const Call& made) {
  Tensor value;
  for (std::size_t r = 0; r < made.results.size(); ++r) {
    const Tensor& result = made.results[r];
    if (!is_tracked(result)) continue;
    const Tensor weights = Tensor::from(weights_of(result, r), result.shape(), result.device());
    const Tensor part = sum(result.to(DType::f64) * weights);
    value = value.defined() ? value + part : part;
  }
  Sum slope;
  if (!value.defined()) return slope;
  std::vector<Tensor> leaves;
  for (const Leaf& leaf : made.leaves) leaves.push_back(leaf.tensor);
  const std::vector<Tensor> found = gradients(value, leaves, {.allow_unused = true});
  for (std::size_t k = 0; k < found.size(); ++k) {
    if (found[k].shape() != leaves[k].shape() || found[k].dtype() != leaves[k].dtype()) {
      throw ShapeError(fmt::format("gradient {} is {} {}, its operand {} {}", k, name_of(found[k].dtype()),
                                   found[k].shape().to_string(), name_of(leaves[k].dtype()),
                                   leaves[k].shape().to_string()));
    }
    const std::vector<double> g = found[k].to_vector<double>();
    for (std::size_t i = 0; i < g.size(); ++i) {
      const long double term = static_cast<long double>(g[i]) * made.leaves[k].direction[i];
      slope.value += term;
      slope.magnitude += std::fabs(term);
    }
  }
  return slope;
}

// Where the op is defined at this point, if anywhere.
std::optional<Slope> defined_slope(const CheckOp& op, const Point& point, bool shared, Device device,
                                   GradientResult& result) {
  const NoGrad no_grad;
  result.status = GradientStatus::undefined;
  result.detail = "not finite";
  for (int domain = static_cast<int>(op.domain); domain < kDomains; ++domain) {
    const Slope slope{.domain = static_cast<Domain>(domain), .shared = shared};
    try {
      const Call made = call(op, slope, point, device);
      if (made.results.empty() || made.leaves.empty()) {
        result.status = GradientStatus::none;
        result.detail = made.leaves.empty() ? "no float operand" : "no float result";
        return std::nullopt;
      }
      if (std::isfinite(weighted_sum(made.results, std::vector<bool>(made.results.size(), true)).value)) return slope;
    } catch (const Error& error) {
      result.detail = first_line(error.what());
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace

GradientResult check_gradient(const CheckOp& op, const Point& point, bool shared, Device device) {
  GradientResult result;
  const std::optional<Slope> defined = defined_slope(op, point, shared, device, result);
  if (!defined) return result;
  Slope slope = *defined;
  slope.tracked = true;
  Precision precision{};
  std::vector<bool> counts;
  try {
    const Call made = call(op, slope, point, device);
    precision = precision_of(made.results);
    for (const Tensor& r : made.results) counts.push_back(is_tracked(r) || !has_constant_results(op.name));
    const Sum analytic = slope_of(made);
    result.analytic = static_cast<double>(analytic.value);
    result.magnitude = static_cast<double>(analytic.magnitude);
  } catch (const Error& error) {
    const std::string text = first_line(error.what());
    result.status = text.find("has no gradient") == std::string::npos ? GradientStatus::wrong : GradientStatus::refused;
    result.error = std::numeric_limits<double>::infinity();
    result.detail = text;
    return result;
  }
  const NoGrad no_grad;
  slope.tracked = false;
  double magnitude = 0;
  const auto difference = [&](double step) {
    slope.step = step;
    const Sum up = weighted_sum(call(op, slope, point, device).results, counts);
    slope.step = -step;
    const Sum down = weighted_sum(call(op, slope, point, device).results, counts);
    magnitude = static_cast<double>(up.magnitude);
    return static_cast<double>((up.value - down.value) / (2 * static_cast<long double>(step)));
  };
  // Richardson: the two differences without their common error of second order.
  const double coarse = difference(precision.step);
  const double fine = difference(precision.step / 2);
  result.numeric = (4 * fine - coarse) / 3;
  // A small slope of large values drowns in their rounding.
  const double scale = std::max({result.magnitude, 1e-3 * magnitude, 1e-12});
  result.error = std::fabs(result.analytic - result.numeric) / scale / precision.bound;
  const bool right = result.error < 1;  // not so for NaN
  result.status = right ? GradientStatus::right : GradientStatus::wrong;
  result.detail = fmt::format("analytic {:.12g}, numeric {:.12g} ({:.12g} by the longer step)", result.analytic,
                              result.numeric, coarse);
  return result;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
