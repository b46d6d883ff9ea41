// Reductions and what is made of them. The order of additions is docs/numerics.md section 4.
#include <algorithm>
#include <cmath>

#include <lockstep/autograd.h>

#include "graph/autocast.h"
#include "graph/gradient_rules.h"
#include "graph/memory_order.h"
#include "graph/ops/operand.h"
#include "graph/ops/reduction.h"
#include "graph/recording.h"
#include "graph/window.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

Tensor reduce(ReduceOp op, const Tensor& a, std::uint32_t dims, const Tensor* b) {
  const bool indices = op == ReduceOp::argmax || op == ReduceOp::argmin;
  Inputs inputs{node_of(a)};
  if (b != nullptr) inputs.push_back(node_of(*b));
  const Tensor result = reduced_in_order(op, std::move(inputs), dims, indices ? DType::i64 : a.dtype(), a.device());
  return trace_reduce(result, op, dims, a, b);
}

Tensor drop_dims(const Tensor& tensor, std::uint32_t mask, bool keepdim) {
  if (keepdim) return tensor;
  Shape shape;
  for (int d = 0; d < tensor.rank(); ++d) {
    if ((mask >> d & 1u) == 0) shape.push_back(tensor.shape()[d]);
  }
  return tensor.reshape(shape);
}

Checked check_input(const Operand& a, const Dims& dims) {
  check_defined({{"input", a}});
  if (a.is_scalar()) fail<ValueError>("needs a tensor operand", {{"input", a}}, "make the scalar a tensor");
  return {a.tensor(), check_dims(a.tensor(), dims)};
}

Checked check_float_input(const Operand& a, const Dims& dims) {
  Checked checked = check_input(a, dims);
  check_float({"input", checked.input});
  return checked;
}

double count_of(const Tensor& tensor, std::uint32_t dims) {
  double count = 1;
  for (int d = 0; d < tensor.rank(); ++d) {
    if ((dims >> d & 1u) != 0) count *= static_cast<double>(tensor.shape()[d]);
  }
  return count;
}

Tensor mean_of(const Tensor& x, std::uint32_t dims) {
  return reduce(ReduceOp::sum, x, dims) / count_of(x, dims);
}

Moments moments(const Tensor& x, std::uint32_t dims, double correction) {
  const Tensor deviation = x - mean_of(x, dims);
  const Tensor squares = reduce(ReduceOp::dot, deviation, dims, &deviation);
  return {deviation, squares / std::max(0.0, count_of(x, dims) - correction)};
}

ShiftedExp shifted_exp(const Tensor& x, std::uint32_t dims) {
  const Tensor largest = reduce(ReduceOp::max, untraced(x), dims);
  ShiftedExp parts;
  parts.shift = where(isfinite(largest), largest, 0.0);
  parts.shifted = x - parts.shift;
  parts.exponential = exp(parts.shifted);
  parts.total = reduce(ReduceOp::sum, parts.exponential, dims);
  return parts;
}

Tensor root_of_squares(const Tensor& squares) {
  if (!is_tracked(squares)) return sqrt(squares);
  const Tensor is_zero = squares == 0.0;
  const Tensor root = sqrt(where(is_zero, 1.0, squares));
  return where(is_zero, 0.0, root);
}

void check_not_empty(const Checked& checked) {
  if (count_of(checked.input, checked.dims) == 0) {
    fail<ShapeError>("of no elements has no value", {{"input", checked.input}}, "reduce dimensions of size > 0");
  }
}

namespace {

// Sums of bool and integers are i64; halves sum in f32.
DType sum_type(DType dtype) { return is_float(dtype) ? wide(dtype) : DType::i64; }

Tensor sum_like(ReduceOp op, const Operand& a, const Dims& dims, bool keepdim) {
  const Checked in = check_input(a, dims);
  const DType result = is_float(in.input.dtype()) ? in.input.dtype() : DType::i64;
  const Tensor total = reduce(op, cast(in.input, sum_type(in.input.dtype())), in.dims);
  return drop_dims(cast(total, result), in.dims, keepdim);
}

Tensor extremum(ReduceOp op, const Operand& a, const Dims& dims, bool keepdim) {
  const Checked in = check_input(a, dims);
  check_not_empty(in);
  return drop_dims(reduce(op, in.input, in.dims), in.dims, keepdim);
}

Tensor index_of_extremum(ReduceOp op, const Operand& a, std::optional<int> dim, bool keepdim) {
  Checked in = check_input(a, dim ? Dims{*dim} : Dims{});
  check_not_empty(in);
  const Tensor index = reduce(op, in.input, in.dims);
  return drop_dims(index, in.dims, keepdim);
}

}  // namespace
}  // namespace graph

using namespace graph;

Tensor sum(const Operand& a, const Dims& dims, bool keepdim) {
  const CallScope call("sum", a);
  if (is_autocasting()) {
    return with_autocast(
        DType::f32, [](const auto&... with) { return sum(with...); }, a, dims, keepdim);
  }
  return sum_like(ReduceOp::sum, a, dims, keepdim);
}
Tensor prod(const Operand& a, const Dims& dims, bool keepdim) {
  const CallScope call("prod", a);
  if (is_autocasting()) {
    return with_autocast(
        DType::f32, [](const auto&... with) { return prod(with...); }, a, dims, keepdim);
  }
  return sum_like(ReduceOp::prod, a, dims, keepdim);
}

Tensor mean(const Operand& a, const Dims& dims, bool keepdim) {
  const CallScope call("mean", a);
  if (is_autocasting()) {
    return with_autocast(
        DType::f32, [](const auto&... with) { return mean(with...); }, a, dims, keepdim);
  }
  const Checked in = check_float_input(a, dims);
  const Tensor x = cast(in.input, wide(in.input.dtype()));
  return drop_dims(cast(mean_of(x, in.dims), in.input.dtype()), in.dims, keepdim);
}

Tensor sum(const Operand& a, const Dims& dims, bool keepdim, DType dtype) {
  const CallScope call("sum", a);
  const AutocastExchange outside(DType::f32);  // the dtype is given
  return sum(tensor_operand(a).to(dtype), dims, keepdim);
}
Tensor prod(const Operand& a, const Dims& dims, bool keepdim, DType dtype) {
  const CallScope call("prod", a);
  const AutocastExchange outside(DType::f32);  // the dtype is given
  return prod(tensor_operand(a).to(dtype), dims, keepdim);
}
Tensor mean(const Operand& a, const Dims& dims, bool keepdim, DType dtype) {
  const CallScope call("mean", a);
  const AutocastExchange outside(DType::f32);  // the dtype is given
  return mean(tensor_operand(a).to(dtype), dims, keepdim);
}

Tensor var(const Operand& a, const Dims& dims, bool keepdim, double correction) {
  const CallScope call("var", a);
  if (is_autocasting()) return with_autocast(DType::f32, var, a, dims, keepdim, correction);
  const Checked in = check_float_input(a, dims);
  const Tensor x = cast(in.input, wide(in.input.dtype()));
  const Tensor variance = moments(x, in.dims, correction).variance;
  return drop_dims(cast(variance, in.input.dtype()), in.dims, keepdim);
}

Tensor std(const Operand& a, const Dims& dims, bool keepdim, double correction) {
  const CallScope call("std", a);
  if (is_autocasting()) return with_autocast(DType::f32, std, a, dims, keepdim, correction);
  const Checked in = check_float_input(a, dims);
  const Tensor x = cast(in.input, wide(in.input.dtype()));
  const Tensor deviation = root_of_squares(moments(x, in.dims, correction).variance);
  return drop_dims(cast(deviation, in.input.dtype()), in.dims, keepdim);
}

Tensor norm(const Operand& a, const Dims& dims, bool keepdim) {
  const CallScope call("norm", a);
  if (is_autocasting()) return with_autocast(DType::f32, norm, a, dims, keepdim);
  const Checked in = check_float_input(a, dims);
  const Tensor x = cast(in.input, wide(in.input.dtype()));
  const Tensor length = root_of_squares(reduce(ReduceOp::dot, x, in.dims, &x));
  return drop_dims(cast(length, in.input.dtype()), in.dims, keepdim);
}

Tensor amax(const Operand& a, const Dims& dims, bool keepdim) {
  const CallScope call("amax", a);
  return extremum(ReduceOp::max, a, dims, keepdim);
}
Tensor amin(const Operand& a, const Dims& dims, bool keepdim) {
  const CallScope call("amin", a);
  return extremum(ReduceOp::min, a, dims, keepdim);
}

Tensor argmax(const Operand& a, std::optional<int> dim, bool keepdim) {
  const CallScope call("argmax", a);
  return index_of_extremum(ReduceOp::argmax, a, dim, keepdim);
}
Tensor argmin(const Operand& a, std::optional<int> dim, bool keepdim) {
  const CallScope call("argmin", a);
  return index_of_extremum(ReduceOp::argmin, a, dim, keepdim);
}

Tensor any(const Operand& a, const Dims& dims, bool keepdim) {
  const CallScope call("any", a);
  const Checked in = check_input(a, dims);
  const Tensor count = reduce(ReduceOp::sum, cast(cast(in.input, DType::boolean), DType::i64), in.dims);
  return drop_dims(ne(count, 0), in.dims, keepdim);
}

Tensor all(const Operand& a, const Dims& dims, bool keepdim) {
  const CallScope call("all", a);
  const Checked in = check_input(a, dims);
  const Tensor product = reduce(ReduceOp::prod, cast(cast(in.input, DType::boolean), DType::i64), in.dims);
  return drop_dims(ne(product, 0), in.dims, keepdim);
}

Tensor logsumexp(const Operand& a, const Dims& dims, bool keepdim) {
  const CallScope call("logsumexp", a);
  if (is_autocasting()) return with_autocast(DType::f32, logsumexp, a, dims, keepdim);
  const Checked in = check_float_input(a, dims);
  if (count_of(in.input, in.dims) == 0) {
    Shape shape = in.input.shape();
    for (int d = 0; d < shape.rank(); ++d) {
      if ((in.dims >> d & 1u) != 0) shape[d] = 1;
    }
    return drop_dims(full(shape, -INFINITY, {.dtype = in.input.dtype(), .device = in.input.device()}), in.dims,
                     keepdim);
  }
  const Tensor x = cast(in.input, wide(in.input.dtype()));
  const ShiftedExp parts = shifted_exp(x, in.dims);
  const Tensor result = parts.shift + log(parts.total);
  return drop_dims(cast(result, in.input.dtype()), in.dims, keepdim);
}

namespace {

Tensor softmax_over(const Operand& a, const Dims& dims) {
  const Checked in = check_float_input(a, dims);
  if (in.input.numel() == 0) return in.input;
  const RecordsToTheEnd to_the_end;  // so that no flush stores what is widened here
  const Tensor x = cast(in.input, wide(in.input.dtype()));
  const ShiftedExp parts = shifted_exp(x, in.dims);
  return recorded(cast(parts.exponential / parts.total, in.input.dtype()), "softmax", {&in.input}, {{in.dims}});
}

Tensor log_softmax_over(const Operand& a, const Dims& dims) {
  const Checked in = check_float_input(a, dims);
  if (in.input.numel() == 0) return in.input;
  const RecordsToTheEnd to_the_end;  // so that no flush stores what is widened here
  const Tensor x = cast(in.input, wide(in.input.dtype()));
  const ShiftedExp parts = shifted_exp(x, in.dims);
  return recorded(cast(parts.shifted - log(parts.total), in.input.dtype()), "log_softmax", {&in.input}, {{in.dims}});
}

}  // namespace

Tensor softmax(const Operand& a, int dim) {
  const CallScope call("softmax", a);
  if (is_autocasting()) {
    return with_autocast(
        DType::f32, [](const auto&... with) { return softmax(with...); }, a, dim);
  }
  return softmax_over(a, {dim});
}
Tensor softmax(const Operand& a, const Dims& dims) {
  const CallScope call("softmax", a);
  if (is_autocasting()) {
    return with_autocast(
        DType::f32, [](const auto&... with) { return softmax(with...); }, a, dims);
  }
  return softmax_over(a, dims);
}
Tensor log_softmax(const Operand& a, int dim) {
  const CallScope call("log_softmax", a);
  if (is_autocasting()) {
    return with_autocast(
        DType::f32, [](const auto&... with) { return log_softmax(with...); }, a, dim);
  }
  return log_softmax_over(a, {dim});
}
Tensor log_softmax(const Operand& a, const Dims& dims) {
  const CallScope call("log_softmax", a);
  if (is_autocasting()) {
    return with_autocast(
        DType::f32, [](const auto&... with) { return log_softmax(with...); }, a, dims);
  }
  return log_softmax_over(a, dims);
}

Tensor softmin(const Operand& a, int dim) {
  const CallScope call("softmin", a);
  if (is_autocasting()) return with_autocast(DType::f32, softmin, a, dim);
  const Tensor x = widened(a);
  return cast(softmax(neg(x), dim), a.tensor().dtype());
}

}  // namespace v0
}  // namespace lockstep
