#include <lockstep/nn/init.h>

#include <cmath>
#include <vector>

#include <fmt/format.h>

#include <lockstep/check.h>
#include <lockstep/ops.h>

#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {
namespace nn {

Tensor uniform_init(const Shape& shape, double bound) {
  return rand(shape) * (2 * bound) - bound;
}

double fan_in_bound(std::int64_t fan_in) {
  return fan_in > 0 ? 1 / std::sqrt(static_cast<double>(fan_in)) : 0;
}

namespace init {
namespace {

[[noreturn]] void refuse(const char* what, const Shape& shape) {
  fail<ShapeError>(fmt::format("{}, not {}", what, shape.to_string()));
}

double fan_of(const Shape& shape, FanMode mode) {
  const Fans both = fans(shape);
  return static_cast<double>(mode == FanMode::in ? both.in : both.out);
}

// 0 for nothing to connect to: there are no elements then.
double over_root(double numerator, double fan) {
  return fan > 0 ? numerator / std::sqrt(fan) : 0;
}

double normal_distribution(double x) {
  return (1 + scalar::ls_erf(x / std::sqrt(2.0))) / 2;
}

// Makes `vectors`, each of `length` elements, orthonormal in order.
void orthonormalise(std::vector<double>& values, std::size_t vectors, std::size_t length) {
  for (std::size_t i = 0; i < vectors; ++i) {
    double* const own = values.data() + i * length;
    for (int pass = 0; pass < 2; ++pass) {  // the second removes what rounding left in the first
      for (std::size_t j = 0; j < i; ++j) {
        const double* const other = values.data() + j * length;
        double shared = 0;
        for (std::size_t k = 0; k < length; ++k) shared += own[k] * other[k];
        for (std::size_t k = 0; k < length; ++k) own[k] -= shared * other[k];
      }
    }
    double squares = 0;
    for (std::size_t k = 0; k < length; ++k) squares += own[k] * own[k];
    const double norm = std::sqrt(squares);
    for (std::size_t k = 0; k < length; ++k) own[k] /= norm;
  }
}

}  // namespace

double gain(Nonlinearity nonlinearity, double negative_slope) {
  switch (nonlinearity) {
    case Nonlinearity::linear:
    case Nonlinearity::sigmoid: return 1;
    case Nonlinearity::tanh: return 5.0 / 3;
    case Nonlinearity::relu: return std::sqrt(2.0);
    case Nonlinearity::leaky_relu: return std::sqrt(2 / (1 + negative_slope * negative_slope));
    case Nonlinearity::selu: return 0.75;
  }
  return 1;
}

Fans fans(const Shape& shape, CallSite site) {
  const CallScope call("fans", site);
  if (shape.rank() < 2) refuse("a weight has at least two dimensions", shape);
  const std::int64_t taps = shape.slice(2, shape.rank()).numel();
  return {shape[1] * taps, shape[0] * taps};
}

Tensor uniform(const Shape& shape, double low, double high, Target target, CallSite site) {
  const CallScope call("uniform", site);
  return lockstep::uniform(low, high, shape, target.tensor, target.generator);
}

Tensor normal(const Shape& shape, double mean, double deviation, Target target, CallSite site) {
  const CallScope call("normal", site);
  return lockstep::normal(mean, deviation, shape, target.tensor, target.generator);
}

Tensor trunc_normal(const Shape& shape, double mean, double deviation, double low, double high, Target target,
                    CallSite site) {
  const CallScope call("trunc_normal", site);
  if (!(deviation > 0) || !(low < high)) {
    fail<ValueError>(fmt::format("deviation {} must be above 0, and {} below {}", deviation, low, high));
  }
  const double first = 2 * normal_distribution((low - mean) / deviation) - 1;
  const double last = 2 * normal_distribution((high - mean) / deviation) - 1;
  const Tensor share = lockstep::uniform(first, last, shape, target.tensor, target.generator);
  const Tensor values = erfinv(share) * (deviation * std::sqrt(2.0)) + mean;
  return clamp(values, low, high);
}

Tensor constant(const Shape& shape, double value, TensorOptions tensor, CallSite site) {
  const CallScope call("constant", site);
  return full(shape, value, tensor);
}
Tensor zeros(const Shape& shape, TensorOptions tensor, CallSite site) {
  const CallScope call("zeros", site);
  return lockstep::zeros(shape, tensor);
}
Tensor ones(const Shape& shape, TensorOptions tensor, CallSite site) {
  const CallScope call("ones", site);
  return lockstep::ones(shape, tensor);
}

Tensor eye(const Shape& shape, TensorOptions tensor, CallSite site) {
  const CallScope call("eye", site);
  if (shape.rank() != 2) refuse("only a matrix has an identity", shape);
  return lockstep::eye(shape[0], shape[1], tensor);
}

Tensor dirac(const Shape& shape, std::int64_t groups, TensorOptions tensor, CallSite site) {
  const CallScope call("dirac", site);
  if (shape.rank() < 3 || shape.rank() > 5 || groups < 1 || shape[0] % groups != 0) {
    refuse("a convolution's weight has 3 to 5 dimensions, the first a multiple of the groups", shape);
  }
  const std::int64_t taps = shape.slice(2, shape.rank()).numel();
  std::int64_t centre = 0;
  for (int d = 2; d < shape.rank(); ++d) centre = centre * shape[d] + shape[d] / 2;
  std::vector<float> values(static_cast<std::size_t>(shape.numel()), 0.0f);
  const std::int64_t per_group = shape[0] / groups;
  for (std::int64_t out = 0; out < shape[0] && taps > 0; ++out) {
    const std::int64_t in = out % per_group;
    if (in < shape[1]) values[static_cast<std::size_t>((out * shape[1] + in) * taps + centre)] = 1;
  }
  return Tensor::from(values, shape, Device{}).to(tensor.dtype).to(tensor.device);
}

Tensor kaiming_uniform(const Shape& shape, KaimingOptions options, Target target, CallSite site) {
  const CallScope call("kaiming_uniform", site);
  const double bound =
      over_root(gain(options.nonlinearity, options.negative_slope) * std::sqrt(3.0), fan_of(shape, options.mode));
  return uniform(shape, -bound, bound, target);
}

Tensor kaiming_normal(const Shape& shape, KaimingOptions options, Target target, CallSite site) {
  const CallScope call("kaiming_normal", site);
  const double deviation = over_root(gain(options.nonlinearity, options.negative_slope), fan_of(shape, options.mode));
  return normal(shape, 0, deviation, target);
}

Tensor xavier_uniform(const Shape& shape, double gain, Target target, CallSite site) {
  const CallScope call("xavier_uniform", site);
  const Fans both = fans(shape);
  const double bound = over_root(gain * std::sqrt(6.0), static_cast<double>(both.in + both.out));
  return uniform(shape, -bound, bound, target);
}

Tensor xavier_normal(const Shape& shape, double gain, Target target, CallSite site) {
  const CallScope call("xavier_normal", site);
  const Fans both = fans(shape);
  return normal(shape, 0, over_root(gain * std::sqrt(2.0), static_cast<double>(both.in + both.out)), target);
}

Tensor orthogonal(const Shape& shape, double gain, Target target, CallSite site) {
  const CallScope call("orthogonal", site);
  if (shape.rank() < 2) refuse("a weight has at least two dimensions", shape);
  const std::int64_t rows = shape[0];
  const std::int64_t columns = shape.slice(1, shape.rank()).numel();
  // The vectors to make orthonormal are the rows, or the columns where there are fewer.
  const bool by_column = rows > columns;
  const Shape drawn = by_column ? Shape{columns, rows} : Shape{rows, columns};
  const std::vector<float> normals =
      randn(drawn, {.device = target.tensor.device}, target.generator).to_vector<float>();
  std::vector<double> values(normals.begin(), normals.end());
  orthonormalise(values, static_cast<std::size_t>(drawn[0]), static_cast<std::size_t>(drawn[1]));
  for (double& value : values) value *= gain;
  const Tensor vectors = Tensor::from(values, drawn, Device{});
  const Tensor matrix = by_column ? vectors.transpose(0, 1) : vectors;
  return matrix.to(target.tensor.dtype).reshape(shape).to(target.tensor.device);
}

}  // namespace init
}  // namespace nn
}  // namespace v0
}  // namespace lockstep
