// Reductions and what is made of them. The order of additions is docs/numerics.md section 4.
#include <fmt/format.h>

#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

Tensor reduce(ReduceOp op, const Tensor& a, std::uint32_t dims, CallSite site, const Tensor* b) {
  Shape shape = a.shape();
  for (int d = 0; d < shape.rank(); ++d) {
    if ((dims >> d & 1u) != 0) shape[d] = 1;
  }
  const bool indices = op == ReduceOp::argmax || op == ReduceOp::argmin;
  std::vector<NodeRef> inputs{node_of(a)};
  if (b != nullptr) inputs.push_back(node_of(*b));
  return Access::tensor(make_node(Reduce{op, dims}, std::move(inputs), shape, indices ? DType::i64 : a.dtype(),
                                  a.device(), site));
}

Tensor drop_dims(const Tensor& tensor, std::uint32_t mask, bool keepdim, CallSite site) {
  if (keepdim) return tensor;
  Shape shape;
  for (int d = 0; d < tensor.rank(); ++d) {
    if ((mask >> d & 1u) == 0) shape.push_back(tensor.shape()[d]);
  }
  return tensor.reshape(shape, site);
}

namespace {

struct Checked {
  Tensor input;
  std::uint32_t dims = 0;
};

Checked check(const char* op, const Operand& a, const Shape& dims) {
  check_defined(op, {{"input", a}}, a.site());
  if (a.is_scalar()) fail<ValueError>(op, "needs a tensor operand", {{"input", a}}, "make the scalar a tensor", a.site());
  return {a.tensor(), check_dims(op, a.tensor(), dims, a.site())};
}

Checked check_float_input(const char* op, const Operand& a, const Shape& dims) {
  Checked checked = check(op, a, dims);
  check_float(op, {"input", checked.input}, a.site());
  return checked;
}

double count_of(const Tensor& tensor, std::uint32_t dims) {
  double count = 1;
  for (int d = 0; d < tensor.rank(); ++d) {
    if ((dims >> d & 1u) != 0) count *= static_cast<double>(tensor.shape()[d]);
  }
  return count;
}

void check_not_empty(const char* op, const Checked& checked, CallSite site) {
  if (count_of(checked.input, checked.dims) == 0) {
    fail<ShapeError>(op, "of no elements has no value", {{"input", checked.input}}, "reduce dimensions of size > 0", site);
  }
}

// Sums of bool and integers are i64; halves sum in f32.
DType sum_type(DType dtype) { return is_float(dtype) ? wide(dtype) : DType::i64; }

Tensor sum_like(const char* name, ReduceOp op, const Operand& a, const Shape& dims, bool keepdim) {
  const Checked in = check(name, a, dims);
  const DType result = is_float(in.input.dtype()) ? in.input.dtype() : DType::i64;
  const Tensor total = reduce(op, cast(in.input, sum_type(in.input.dtype()), a.site()), in.dims, a.site());
  return drop_dims(cast(total, result, a.site()), in.dims, keepdim, a.site());
}

Tensor extremum(const char* name, ReduceOp op, const Operand& a, const Shape& dims, bool keepdim) {
  const Checked in = check(name, a, dims);
  check_not_empty(name, in, a.site());
  return drop_dims(reduce(op, in.input, in.dims, a.site()), in.dims, keepdim, a.site());
}

Tensor index_of_extremum(const char* name, ReduceOp op, const Operand& a, std::optional<int> dim, bool keepdim) {
  Checked in = check(name, a, dim ? Shape{*dim} : Shape{});
  check_not_empty(name, in, a.site());
  const Tensor index = reduce(op, in.input, in.dims, a.site());
  return drop_dims(index, in.dims, keepdim, a.site());
}

Tensor mean_of(const Tensor& x, std::uint32_t dims, CallSite site) {
  return reduce(ReduceOp::sum, x, dims, site) / count_of(x, dims);
}

// Deviations from the mean, and the sum of their squares divided by max(0, n - correction).
struct Moments {
  Tensor deviation;
  Tensor variance;
};
Moments moments(const Tensor& x, std::uint32_t dims, double correction, CallSite site) {
  const Tensor deviation = x - mean_of(x, dims, site);
  const Tensor squares = reduce(ReduceOp::dot, deviation, dims, site, &deviation);
  return {deviation, squares / std::max(0.0, count_of(x, dims) - correction)};
}

}  // namespace
}  // namespace graph

using namespace graph;

Tensor sum(const Operand& a, const Shape& dims, bool keepdim) { return sum_like("sum", ReduceOp::sum, a, dims, keepdim); }
Tensor prod(const Operand& a, const Shape& dims, bool keepdim) { return sum_like("prod", ReduceOp::prod, a, dims, keepdim); }

Tensor mean(const Operand& a, const Shape& dims, bool keepdim) {
  const Checked in = check_float_input("mean", a, dims);
  const Tensor x = cast(in.input, wide(in.input.dtype()), a.site());
  return drop_dims(cast(mean_of(x, in.dims, a.site()), in.input.dtype(), a.site()), in.dims, keepdim, a.site());
}

Tensor var(const Operand& a, const Shape& dims, bool keepdim, double correction) {
  const Checked in = check_float_input("var", a, dims);
  const Tensor x = cast(in.input, wide(in.input.dtype()), a.site());
  const Tensor variance = moments(x, in.dims, correction, a.site()).variance;
  return drop_dims(cast(variance, in.input.dtype(), a.site()), in.dims, keepdim, a.site());
}

Tensor std(const Operand& a, const Shape& dims, bool keepdim, double correction) {
  const Checked in = check_float_input("std", a, dims);
  const Tensor x = cast(in.input, wide(in.input.dtype()), a.site());
  const Tensor deviation = sqrt(moments(x, in.dims, correction, a.site()).variance);
  return drop_dims(cast(deviation, in.input.dtype(), a.site()), in.dims, keepdim, a.site());
}

Tensor norm(const Operand& a, const Shape& dims, bool keepdim) {
  const Checked in = check_float_input("norm", a, dims);
  const Tensor x = cast(in.input, wide(in.input.dtype()), a.site());
  const Tensor length = sqrt(reduce(ReduceOp::dot, x, in.dims, a.site(), &x));
  return drop_dims(cast(length, in.input.dtype(), a.site()), in.dims, keepdim, a.site());
}

Tensor amax(const Operand& a, const Shape& dims, bool keepdim) { return extremum("amax", ReduceOp::max, a, dims, keepdim); }
Tensor amin(const Operand& a, const Shape& dims, bool keepdim) { return extremum("amin", ReduceOp::min, a, dims, keepdim); }

Tensor argmax(const Operand& a, std::optional<int> dim, bool keepdim) {
  return index_of_extremum("argmax", ReduceOp::argmax, a, dim, keepdim);
}
Tensor argmin(const Operand& a, std::optional<int> dim, bool keepdim) {
  return index_of_extremum("argmin", ReduceOp::argmin, a, dim, keepdim);
}

Tensor any(const Operand& a, const Shape& dims, bool keepdim) {
  const Checked in = check("any", a, dims);
  const Tensor count = reduce(ReduceOp::sum, cast(cast(in.input, DType::boolean, a.site()), DType::i64, a.site()), in.dims, a.site());
  return drop_dims(ne(count, 0), in.dims, keepdim, a.site());
}

Tensor all(const Operand& a, const Shape& dims, bool keepdim) {
  const Checked in = check("all", a, dims);
  const Tensor product = reduce(ReduceOp::prod, cast(cast(in.input, DType::boolean, a.site()), DType::i64, a.site()), in.dims, a.site());
  return drop_dims(ne(product, 0), in.dims, keepdim, a.site());
}

namespace {

// exp(x - m) with m the largest value of each row, 0 where that is not finite.
struct ShiftedExp {
  Tensor shift;
  Tensor shifted;
  Tensor exponential;
  Tensor total;
};
ShiftedExp shifted_exp(const Tensor& x, std::uint32_t dims, CallSite site) {
  const Tensor largest = reduce(ReduceOp::max, x, dims, site);
  ShiftedExp parts;
  parts.shift = where(isfinite(largest), largest, 0.0);
  parts.shifted = x - parts.shift;
  parts.exponential = exp(parts.shifted);
  parts.total = reduce(ReduceOp::sum, parts.exponential, dims, site);
  return parts;
}

}  // namespace

Tensor logsumexp(const Operand& a, const Shape& dims, bool keepdim) {
  const Checked in = check_float_input("logsumexp", a, dims);
  check_not_empty("logsumexp", in, a.site());
  const Tensor x = cast(in.input, wide(in.input.dtype()), a.site());
  const ShiftedExp parts = shifted_exp(x, in.dims, a.site());
  const Tensor result = parts.shift + log(parts.total);
  return drop_dims(cast(result, in.input.dtype(), a.site()), in.dims, keepdim, a.site());
}

Tensor softmax(const Operand& a, int dim) {
  const Checked in = check_float_input("softmax", a, {dim});
  if (in.input.numel() == 0) return in.input;
  const Tensor x = cast(in.input, wide(in.input.dtype()), a.site());
  const ShiftedExp parts = shifted_exp(x, in.dims, a.site());
  return cast(parts.exponential / parts.total, in.input.dtype(), a.site());
}

Tensor log_softmax(const Operand& a, int dim) {
  const Checked in = check_float_input("log_softmax", a, {dim});
  if (in.input.numel() == 0) return in.input;
  const Tensor x = cast(in.input, wide(in.input.dtype()), a.site());
  const ShiftedExp parts = shifted_exp(x, in.dims, a.site());
  return cast(parts.shifted - log(parts.total), in.input.dtype(), a.site());
}

// --- normalisation ------------------------------------------------------------------------------------------------

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
