// Normalisations: means and variances over some dimensions, then scale and shift.
#include <fmt/format.h>

#include "graph/ops/reduction.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

// A per-channel (or trailing) parameter: right device, dtype of the input or f32, and shape.
Tensor parameter(const char* op, const char* label, const Tensor& value, const Tensor& x, const Shape& shape,
                 DType working, CallSite site) {
  check_same_device(op, {{"input", x}, {label, value}}, site);
  if (value.shape() != shape) {
    fail<ShapeError>(op, fmt::format("{} must have shape {}", label, shape.to_string()), {{"input", x}, {label, value}},
                     "", site);
  }
  if (value.dtype() != x.dtype() && value.dtype() != working) {
    check_same_dtype(op, {{"input", x}, {label, value}}, site);
  }
  return cast(value, working, site);
}

// [C] as [C, 1, ...] so that it broadcasts over x [N, C, ...].
Tensor per_channel(const Tensor& value, int rank, CallSite site) {
  Shape shape = Shape::filled(rank - 1, 1);
  shape[0] = value.numel();
  return value.reshape(shape, site);
}

std::uint32_t trailing_dims(const char* op, const Tensor& x, const Shape& normalized, CallSite site) {
  const int first = x.rank() - normalized.rank();
  if (normalized.empty() || first < 0 || x.shape().slice(first, x.rank()) != normalized) {
    fail<ShapeError>(op, fmt::format("normalized_shape {} is not the end of the input's shape", normalized.to_string()),
                     {{"input", x}}, "", site);
  }
  return ((1u << x.rank()) - 1u) & ~((1u << first) - 1u);
}

}  // namespace

Tensor layer_norm(const Operand& a, const Shape& normalized_shape, const std::optional<Tensor>& weight,
                  const std::optional<Tensor>& bias, double eps) {
  const Tensor input = check_float_input("layer_norm", a, {}).input;
  const CallSite site = a.site();
  const std::uint32_t dims = trailing_dims("layer_norm", input, normalized_shape, site);
  const DType working = wide(input.dtype());
  const Tensor x = cast(input, working, site);
  const Moments m = moments(x, dims, 0, site);
  Tensor y = m.deviation * rsqrt(m.variance + eps);
  if (weight) y = y * parameter("layer_norm", "weight", *weight, input, normalized_shape, working, site);
  if (bias) y = y + parameter("layer_norm", "bias", *bias, input, normalized_shape, working, site);
  return cast(y, input.dtype(), site);
}

Tensor rms_norm(const Operand& a, const Shape& normalized_shape, const std::optional<Tensor>& weight,
                std::optional<double> eps) {
  const Tensor input = check_float_input("rms_norm", a, {}).input;
  const CallSite site = a.site();
  const std::uint32_t dims = trailing_dims("rms_norm", input, normalized_shape, site);
  const DType working = wide(input.dtype());
  const Tensor x = cast(input, working, site);
  // Absent: torch uses the dtype's machine epsilon.
  const double epsilon = eps.value_or(input.dtype() == DType::f64   ? 0x1p-52
                                      : input.dtype() == DType::f16 ? 0x1p-10
                                      : input.dtype() == DType::bf16 ? 0x1p-7
                                                                     : 0x1p-23);
  const Tensor mean_square = reduce(ReduceOp::dot, x, dims, site, &x) / count_of(x, dims);
  Tensor y = x * rsqrt(mean_square + epsilon);
  if (weight) y = y * parameter("rms_norm", "weight", *weight, input, normalized_shape, working, site);
  return cast(y, input.dtype(), site);
}

Tensor group_norm(const Operand& a, std::int64_t groups, const std::optional<Tensor>& weight,
                  const std::optional<Tensor>& bias, double eps) {
  const Tensor input = check_float_input("group_norm", a, {}).input;
  const CallSite site = a.site();
  if (input.rank() < 2 || groups < 1 || input.shape()[1] % groups != 0) {
    fail<ShapeError>("group_norm", fmt::format("{} groups do not divide the channels (dimension 1)", groups),
                     {{"input", input}}, "", site);
  }
  const DType working = wide(input.dtype());
  const std::int64_t batch = input.shape()[0];
  const std::int64_t channels = input.shape()[1];
  Shape grouped{batch, groups, channels / groups};
  Shape parameter_shape{groups, channels / groups};
  std::int64_t positions = 1;
  for (int d = 2; d < input.rank(); ++d) positions *= input.shape()[d];
  grouped.push_back(positions);
  parameter_shape.push_back(1);
  const Tensor x = cast(input, working, site).reshape(grouped, site);
  const Moments m = moments(x, 0b1100u, 0, site);
  Tensor y = m.deviation * rsqrt(m.variance + eps);
  const auto shaped = [&](const char* label, const Tensor& value) {
    return parameter("group_norm", label, value, input, {channels}, working, site).reshape(parameter_shape, site);
  };
  if (weight) y = y * shaped("weight", *weight);
  if (bias) y = y + shaped("bias", *bias);
  return cast(y.reshape(input.shape(), site), input.dtype(), site);
}

Tensor batch_norm(const Operand& a, const Tensor& running_mean, const Tensor& running_var,
                  const std::optional<Tensor>& weight, const std::optional<Tensor>& bias, double eps) {
  const Tensor input = check_float_input("batch_norm", a, {}).input;
  const CallSite site = a.site();
  if (input.rank() < 2) fail<ShapeError>("batch_norm", "input must be [N, C, ...]", {{"input", input}}, "", site);
  const DType working = wide(input.dtype());
  const Shape channels{input.shape()[1]};
  const auto shaped = [&](const char* label, const Tensor& value) {
    return per_channel(parameter("batch_norm", label, value, input, channels, working, site), input.rank(), site);
  };
  Tensor scale = rsqrt(shaped("running_var", running_var) + eps);
  if (weight) scale = scale * shaped("weight", *weight);
  Tensor y = (cast(input, working, site) - shaped("running_mean", running_mean)) * scale;
  if (bias) y = y + shaped("bias", *bias);
  return cast(y, input.dtype(), site);
}

}  // namespace v0
}  // namespace lockstep
