// Normalisations: means and variances over some dimensions, then scale and shift.
#include <limits>

#include <fmt/format.h>

#include "core/elements.h"
#include "graph/autocast.h"
#include "graph/ops/normalization.h"
#include "graph/ops/reduction.h"
#include "graph/recording.h"
#include "graph/window.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

Tensor parameter(const char* label, const Tensor& value, const Tensor& x, const Shape& shape, DType working) {
  check_same_device({{"input", x}, {label, value}});
  if (value.shape() != shape) {
    fail<ShapeError>(fmt::format("{} must have shape {}", label, shape.to_string()), {{"input", x}, {label, value}});
  }
  if (value.dtype() != x.dtype() && value.dtype() != working) {
    check_same_dtype({{"input", x}, {label, value}});
  }
  return cast(value, working);
}

Tensor per_channel(const Tensor& value, int rank) {
  Shape shape = Shape::filled(rank - 1, 1);
  shape[0] = value.numel();
  return value.reshape(shape);
}

}  // namespace graph

using namespace graph;

namespace {

std::uint32_t trailing_dims(const Tensor& x, const Shape& normalized) {
  const int first = x.rank() - normalized.rank();
  if (normalized.empty() || first < 0 || x.shape().slice(first, x.rank()) != normalized) {
    fail<ShapeError>(fmt::format("normalized_shape {} is not the end of the input's shape", normalized.to_string()),
                     {{"input", x}});
  }
  return ((1u << x.rank()) - 1u) & ~((1u << first) - 1u);
}

}  // namespace

Tensor layer_norm(const Operand& a, const Shape& normalized_shape, const std::optional<Tensor>& weight,
                  const std::optional<Tensor>& bias, double eps) {
  const CallScope call("layer_norm", a);
  if (is_autocasting()) return with_autocast(DType::f32, layer_norm, a, normalized_shape, weight, bias, eps);
  const Tensor input = check_float_input(a, {}).input;
  const RecordsToTheEnd to_the_end;  // so that no flush stores what is widened here
  const std::uint32_t dims = trailing_dims(input, normalized_shape);
  const DType working = wide(input.dtype());
  const Tensor x = cast(input, working);
  const Moments m = moments(x, dims, 0);
  Tensor y = m.deviation * rsqrt(m.variance + eps);
  if (weight) y = y * parameter("weight", *weight, input, normalized_shape, working);
  if (bias) y = y + parameter("bias", *bias, input, normalized_shape, working);
  return recorded(cast(y, input.dtype()), "layer_norm", {&input, pointer_to(weight), pointer_to(bias)},
                  {normalized_shape}, {eps});
}

Tensor rms_norm(const Operand& a, const Shape& normalized_shape, const std::optional<Tensor>& weight,
                std::optional<double> eps) {
  const CallScope call("rms_norm", a);
  if (is_autocasting()) return with_autocast(DType::f32, rms_norm, a, normalized_shape, weight, eps);
  const Tensor input = check_float_input(a, {}).input;
  const std::uint32_t dims = trailing_dims(input, normalized_shape);
  const DType working = wide(input.dtype());
  const Tensor x = cast(input, working);
  // Absent: torch uses the dtype's machine epsilon.
  const double epsilon = eps.value_or(epsilon_of(input.dtype()));
  const Tensor mean_square = reduce(ReduceOp::dot, x, dims, &x) / count_of(x, dims);
  Tensor y = x * rsqrt(mean_square + epsilon);
  if (weight) y = y * parameter("weight", *weight, input, normalized_shape, working);
  return recorded(cast(y, input.dtype()), "rms_norm", {&input, pointer_to(weight)}, {normalized_shape}, {epsilon});
}

Tensor group_norm(const Operand& a, std::int64_t groups, const std::optional<Tensor>& weight,
                  const std::optional<Tensor>& bias, double eps) {
  const CallScope call("group_norm", a);
  if (is_autocasting()) return with_autocast(DType::f32, group_norm, a, groups, weight, bias, eps);
  const Tensor input = check_float_input(a, {}).input;
  if (input.rank() < 2 || groups < 1 || input.shape()[1] % groups != 0) {
    fail<ShapeError>(fmt::format("{} groups do not divide the channels (dimension 1)", groups), {{"input", input}});
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
  const Tensor x = cast(input, working).reshape(grouped);
  const Moments m = moments(x, 0b1100u, 0);
  Tensor y = m.deviation * rsqrt(m.variance + eps);
  const auto shaped = [&](const char* label, const Tensor& value) {
    return parameter(label, value, input, {channels}, working).reshape(parameter_shape);
  };
  if (weight) y = y * shaped("weight", *weight);
  if (bias) y = y + shaped("bias", *bias);
  return recorded(cast(y.reshape(input.shape()), input.dtype()), "group_norm",
                  {&input, pointer_to(weight), pointer_to(bias)}, {{groups}}, {eps});
}

Tensor local_response_norm(const Operand& a, std::int64_t size, const LocalResponseNormOptions& options) {
  const CallScope call("local_response_norm", a);
  if (is_autocasting()) return with_autocast(DType::f32, local_response_norm, a, size, options);
  const Tensor input = check_float_input(a, {}).input;
  if (input.rank() < 2) {
    fail<ShapeError>("input must be [N, C, ...]", {{"input", input}});
  }
  if (size < 1 || input.rank() == kMaxRank) {
    fail<ValueError>(fmt::format("cannot look at {} neighbours of {} dimensions", size, input.rank()),
                     {{"input", input}}, "use a size of at least 1");
  }
  if (input.numel() == 0) return input;
  const Tensor x = cast(input, wide(input.dtype()));
  // Each channel beside size / 2 before it and (size - 1) / 2 behind; those that do not exist count as zeros, and windows
  // are no wider than they can see.
  const std::int64_t channels = input.shape()[1];
  const std::int64_t before = std::min(size / 2, channels - 1);
  const std::int64_t behind = std::min((size - 1) / 2, channels - 1);
  const Tensor windows = change_view(x * x, [&](const View& view) -> std::optional<View> {
    std::optional<View> padded = view.padded(1, before, behind, 0);
    if (!padded) return std::nullopt;
    return padded->windowed(1, before + behind + 1, channels, 1, 1);
  });
  const std::uint32_t taps = 1u << input.rank();
  const Tensor total = drop_dims(reduce(ReduceOp::sum, windows, taps), taps, false);
  const Tensor scale = total / static_cast<double>(size) * options.alpha + options.k;
  const Tensor y = x / pow(scale, options.beta);
  return cast(y, input.dtype());
}

Tensor normalize(const Operand& a, double p, int dim, double eps) {
  const CallScope call("normalize", a);
  if (is_autocasting()) return with_autocast(DType::f32, normalize, a, p, dim, eps);
  const Checked in = check_float_input(a, {dim});
  const Tensor x = cast(in.input, wide(in.input.dtype()));
  if (x.numel() == 0) return in.input;
  Tensor length;
  if (p == 2) {
    length = root_of_squares(reduce(ReduceOp::dot, x, in.dims, &x));
  } else if (p == 1) {
    length = reduce(ReduceOp::sum, abs(x), in.dims);
  } else if (p == std::numeric_limits<double>::infinity()) {
    length = reduce(ReduceOp::max, abs(x), in.dims);
  } else {
    fail<ValueError>(fmt::format("p = {} is not 1, 2 or infinity", p), {{"input", in.input}},
                     "divide by a norm of your own");
  }
  return cast(x / maximum(length, eps), in.input.dtype());
}

Tensor weight_norm(const Operand& v, const Operand& g, int dim) {
  const CallScope call("weight_norm", v);
  const Checked in = check_float_input(v, {dim});
  check_same_device({{"v", v}, {"g", g}});
  check_same_dtype({{"v", v}, {"g", g}});
  const std::uint32_t others = ((1u << in.input.rank()) - 1u) & ~in.dims;
  Shape shape = in.input.shape();
  for (int d = 0; d < shape.rank(); ++d) {
    if ((others >> d & 1u) != 0) shape[d] = 1;
  }
  if (g.is_scalar() || g.tensor().shape() != shape) {
    fail<ShapeError>(fmt::format("g must have shape {}", shape.to_string()), {{"v", v}, {"g", g}});
  }
  const Tensor x = cast(in.input, wide(in.input.dtype()));
  const Tensor length = sqrt(reduce(ReduceOp::dot, x, others, &x));
  return cast(x * (cast(g.tensor(), x.dtype()) / length), in.input.dtype());
}

}  // namespace v0
}  // namespace lockstep
