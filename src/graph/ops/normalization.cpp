// Normalisations: means and variances over some dimensions, then scale and shift.
#include <limits>

#include <fmt/format.h>

#include "graph/ops/normalization.h"
#include "graph/ops/reduction.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

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

Tensor per_channel(const Tensor& value, int rank, CallSite site) {
  Shape shape = Shape::filled(rank - 1, 1);
  shape[0] = value.numel();
  return value.reshape(shape, site);
}

}  // namespace graph

using namespace graph;

namespace {

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
  const double epsilon = eps.value_or(input.dtype() == DType::f64    ? 0x1p-52
                                      : input.dtype() == DType::f16  ? 0x1p-10
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

Tensor local_response_norm(const Operand& a, std::int64_t size, const LocalResponseNormOptions& options) {
  const double alpha = options.alpha;
  const double beta = options.beta;
  const double k = options.k;
  const Tensor input = check_float_input("local_response_norm", a, {}).input;
  const CallSite site = a.site();
  if (input.rank() < 2) {
    fail<ShapeError>("local_response_norm", "input must be [N, C, ...]", {{"input", input}}, "", site);
  }
  if (size < 1 || input.rank() == kMaxRank) {
    fail<ValueError>("local_response_norm",
                     fmt::format("cannot look at {} neighbours of {} dimensions", size, input.rank()),
                     {{"input", input}}, "use a size of at least 1", site);
  }
  if (input.numel() == 0) return input;
  const Tensor x = cast(input, wide(input.dtype()), site);
  // Each channel beside size / 2 before it and (size - 1) / 2 behind; those that do not exist count as zeros, and windows
  // are no wider than they can see.
  const std::int64_t channels = input.shape()[1];
  const std::int64_t before = std::min(size / 2, channels - 1);
  const std::int64_t behind = std::min((size - 1) / 2, channels - 1);
  const Tensor windows = change_view(x * x, site, [&](const View& view) -> std::optional<View> {
    std::optional<View> padded = view.padded(1, before, behind, 0);
    if (!padded) return std::nullopt;
    return padded->windowed(1, before + behind + 1, channels, 1, 1);
  });
  const std::uint32_t taps = 1u << input.rank();
  const Tensor total = drop_dims(reduce(ReduceOp::sum, windows, taps, site), taps, false, site);
  const Tensor scale = total / static_cast<double>(size) * alpha + k;
  const Tensor y = x / pow(scale, beta);
  return cast(y, input.dtype(), site);
}

Tensor normalize(const Operand& a, double p, int dim, double eps) {
  const Checked in = check_float_input("normalize", a, {dim});
  const CallSite site = a.site();
  const Tensor x = cast(in.input, wide(in.input.dtype()), site);
  if (x.numel() == 0) return in.input;
  Tensor length;
  if (p == 2) {
    length = root_of_squares(reduce(ReduceOp::dot, x, in.dims, site, &x), site);
  } else if (p == 1) {
    length = reduce(ReduceOp::sum, abs(x), in.dims, site);
  } else if (p == std::numeric_limits<double>::infinity()) {
    length = reduce(ReduceOp::max, abs(x), in.dims, site);
  } else {
    fail<ValueError>("normalize", fmt::format("p = {} is not 1, 2 or infinity", p), {{"input", in.input}},
                     "divide by a norm of your own", site);
  }
  return cast(x / maximum(length, eps), in.input.dtype(), site);
}

Tensor weight_norm(const Operand& v, const Operand& g, int dim) {
  const Checked in = check_float_input("weight_norm", v, {dim});
  const CallSite site = v.site();
  check_same_device("weight_norm", {{"v", v}, {"g", g}}, site);
  check_same_dtype("weight_norm", {{"v", v}, {"g", g}}, site);
  const std::uint32_t others = ((1u << in.input.rank()) - 1u) & ~in.dims;
  Shape shape = in.input.shape();
  for (int d = 0; d < shape.rank(); ++d) {
    if ((others >> d & 1u) != 0) shape[d] = 1;
  }
  if (g.is_scalar() || g.tensor().shape() != shape) {
    fail<ShapeError>("weight_norm", fmt::format("g must have shape {}", shape.to_string()), {{"v", v}, {"g", g}}, "",
                     site);
  }
  const Tensor x = cast(in.input, wide(in.input.dtype()), site);
  const Tensor length = sqrt(reduce(ReduceOp::dot, x, others, site, &x));
  return cast(x * (cast(g.tensor(), x.dtype(), site) / length), in.input.dtype(), site);
}

}  // namespace v0
}  // namespace lockstep
