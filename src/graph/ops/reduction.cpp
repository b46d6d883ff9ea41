// Reductions and what is made of them. The order of additions is docs/numerics.md section 4.
#include <algorithm>
#include <cmath>

#include <lockstep/autograd.h>

#include "graph/ops/operand.h"
#include "graph/ops/reduction.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

Tensor reduce(ReduceOp op, const Tensor& a, std::uint32_t dims, CallSite site, const Tensor* b) {
  Shape shape = a.shape();
  for (int d = 0; d < shape.rank(); ++d) {
    if ((dims >> d & 1u) != 0) shape[d] = 1;
  }
  const bool indices = op == ReduceOp::argmax || op == ReduceOp::argmin;
  Inputs inputs{node_of(a)};
  if (b != nullptr) inputs.push_back(node_of(*b));
  const Tensor result = Access::tensor(
      make_node(Reduce{op, dims}, std::move(inputs), shape, indices ? DType::i64 : a.dtype(), a.device(), site));
  return trace_reduce(result, op, dims, a, b);
}

Tensor drop_dims(const Tensor& tensor, std::uint32_t mask, bool keepdim, CallSite site) {
  if (keepdim) return tensor;
  Shape shape;
  for (int d = 0; d < tensor.rank(); ++d) {
    if ((mask >> d & 1u) == 0) shape.push_back(tensor.shape()[d]);
  }
  return tensor.reshape(shape, site);
}

Checked check(const char* op, const Operand& a, const Dims& dims) {
  check_defined(op, {{"input", a}}, a.site());
  if (a.is_scalar()) fail<ValueError>(op, "needs a tensor operand", {{"input", a}}, "make the scalar a tensor", a.site());
  return {a.tensor(), check_dims(op, a.tensor(), dims, a.site())};
}

Checked check_float_input(const char* op, const Operand& a, const Dims& dims) {
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

Tensor mean_of(const Tensor& x, std::uint32_t dims, CallSite site) {
  return reduce(ReduceOp::sum, x, dims, site) / count_of(x, dims);
}

Moments moments(const Tensor& x, std::uint32_t dims, double correction, CallSite site) {
  const Tensor deviation = x - mean_of(x, dims, site);
  const Tensor squares = reduce(ReduceOp::dot, deviation, dims, site, &deviation);
  return {deviation, squares / std::max(0.0, count_of(x, dims) - correction)};
}

Tensor root_of_squares(const Tensor& squares, CallSite site) {
  if (!is_tracked(squares)) return sqrt(Operand(squares, site));
  const Tensor is_zero = squares == 0.0;
  const Tensor root = sqrt(Operand(where(is_zero, 1.0, squares), site));
  return where(is_zero, 0.0, root);
}

void check_not_empty(const char* op, const Checked& checked, CallSite site) {
  if (count_of(checked.input, checked.dims) == 0) {
    fail<ShapeError>(op, "of no elements has no value", {{"input", checked.input}}, "reduce dimensions of size > 0", site);
  }
}

namespace {

// Sums of bool and integers are i64; halves sum in f32.
DType sum_type(DType dtype) { return is_float(dtype) ? wide(dtype) : DType::i64; }

Tensor sum_like(const char* name, ReduceOp op, const Operand& a, const Dims& dims, bool keepdim) {
  const Checked in = check(name, a, dims);
  const DType result = is_float(in.input.dtype()) ? in.input.dtype() : DType::i64;
  const Tensor total = reduce(op, cast(in.input, sum_type(in.input.dtype()), a.site()), in.dims, a.site());
  return drop_dims(cast(total, result, a.site()), in.dims, keepdim, a.site());
}

Tensor extremum(const char* name, ReduceOp op, const Operand& a, const Dims& dims, bool keepdim) {
  const Checked in = check(name, a, dims);
  check_not_empty(name, in, a.site());
  return drop_dims(reduce(op, in.input, in.dims, a.site()), in.dims, keepdim, a.site());
}

Tensor index_of_extremum(const char* name, ReduceOp op, const Operand& a, std::optional<int> dim, bool keepdim) {
  Checked in = check(name, a, dim ? Dims{*dim} : Dims{});
  check_not_empty(name, in, a.site());
  const Tensor index = reduce(op, in.input, in.dims, a.site());
  return drop_dims(index, in.dims, keepdim, a.site());
}

}  // namespace
}  // namespace graph

using namespace graph;

Tensor sum(const Operand& a, const Dims& dims, bool keepdim) {
  return sum_like("sum", ReduceOp::sum, a, dims, keepdim);
}
Tensor prod(const Operand& a, const Dims& dims, bool keepdim) {
  return sum_like("prod", ReduceOp::prod, a, dims, keepdim);
}

Tensor mean(const Operand& a, const Dims& dims, bool keepdim) {
  const Checked in = check_float_input("mean", a, dims);
  const Tensor x = cast(in.input, wide(in.input.dtype()), a.site());
  return drop_dims(cast(mean_of(x, in.dims, a.site()), in.input.dtype(), a.site()), in.dims, keepdim, a.site());
}

Tensor sum(const Operand& a, const Dims& dims, bool keepdim, DType dtype) {
  return sum(tensor_operand("sum", a).to(dtype, a.site()), dims, keepdim);
}
Tensor prod(const Operand& a, const Dims& dims, bool keepdim, DType dtype) {
  return prod(tensor_operand("prod", a).to(dtype, a.site()), dims, keepdim);
}
Tensor mean(const Operand& a, const Dims& dims, bool keepdim, DType dtype) {
  return mean(tensor_operand("mean", a).to(dtype, a.site()), dims, keepdim);
}

Tensor var(const Operand& a, const Dims& dims, bool keepdim, double correction) {
  const Checked in = check_float_input("var", a, dims);
  const Tensor x = cast(in.input, wide(in.input.dtype()), a.site());
  const Tensor variance = moments(x, in.dims, correction, a.site()).variance;
  return drop_dims(cast(variance, in.input.dtype(), a.site()), in.dims, keepdim, a.site());
}

Tensor std(const Operand& a, const Dims& dims, bool keepdim, double correction) {
  const Checked in = check_float_input("std", a, dims);
  const Tensor x = cast(in.input, wide(in.input.dtype()), a.site());
  const Tensor deviation = root_of_squares(moments(x, in.dims, correction, a.site()).variance, a.site());
  return drop_dims(cast(deviation, in.input.dtype(), a.site()), in.dims, keepdim, a.site());
}

Tensor norm(const Operand& a, const Dims& dims, bool keepdim) {
  const Checked in = check_float_input("norm", a, dims);
  const Tensor x = cast(in.input, wide(in.input.dtype()), a.site());
  const Tensor length = root_of_squares(reduce(ReduceOp::dot, x, in.dims, a.site(), &x), a.site());
  return drop_dims(cast(length, in.input.dtype(), a.site()), in.dims, keepdim, a.site());
}

Tensor amax(const Operand& a, const Dims& dims, bool keepdim) {
  return extremum("amax", ReduceOp::max, a, dims, keepdim);
}
Tensor amin(const Operand& a, const Dims& dims, bool keepdim) {
  return extremum("amin", ReduceOp::min, a, dims, keepdim);
}

Tensor argmax(const Operand& a, std::optional<int> dim, bool keepdim) {
  return index_of_extremum("argmax", ReduceOp::argmax, a, dim, keepdim);
}
Tensor argmin(const Operand& a, std::optional<int> dim, bool keepdim) {
  return index_of_extremum("argmin", ReduceOp::argmin, a, dim, keepdim);
}

Tensor any(const Operand& a, const Dims& dims, bool keepdim) {
  const Checked in = check("any", a, dims);
  const Tensor count = reduce(ReduceOp::sum, cast(cast(in.input, DType::boolean, a.site()), DType::i64, a.site()), in.dims, a.site());
  return drop_dims(ne(count, 0), in.dims, keepdim, a.site());
}

Tensor all(const Operand& a, const Dims& dims, bool keepdim) {
  const Checked in = check("all", a, dims);
  const Tensor product = reduce(ReduceOp::prod, cast(cast(in.input, DType::boolean, a.site()), DType::i64, a.site()), in.dims, a.site());
  return drop_dims(ne(product, 0), in.dims, keepdim, a.site());
}

namespace {

// exp(x - m) with m the largest value of each row, 0 where that is not finite. Results do not depend on m but for
// rounding, so no gradient goes through it.
struct ShiftedExp {
  Tensor shift;
  Tensor shifted;
  Tensor exponential;
  Tensor total;
};
ShiftedExp shifted_exp(const Tensor& x, std::uint32_t dims, CallSite site) {
  const Tensor largest = reduce(ReduceOp::max, untraced(x), dims, site);
  ShiftedExp parts;
  parts.shift = where(isfinite(largest), largest, 0.0);
  parts.shifted = x - parts.shift;
  parts.exponential = exp(parts.shifted);
  parts.total = reduce(ReduceOp::sum, parts.exponential, dims, site);
  return parts;
}

}  // namespace

Tensor logsumexp(const Operand& a, const Dims& dims, bool keepdim) {
  const Checked in = check_float_input("logsumexp", a, dims);
  const CallSite site = a.site();
  if (count_of(in.input, in.dims) == 0) {
    Shape shape = in.input.shape();
    for (int d = 0; d < shape.rank(); ++d) {
      if ((in.dims >> d & 1u) != 0) shape[d] = 1;
    }
    return drop_dims(full(shape, -INFINITY, {.dtype = in.input.dtype(), .device = in.input.device()}, site), in.dims,
                     keepdim, site);
  }
  const Tensor x = cast(in.input, wide(in.input.dtype()), site);
  const ShiftedExp parts = shifted_exp(x, in.dims, site);
  const Tensor result = parts.shift + log(parts.total);
  return drop_dims(cast(result, in.input.dtype(), site), in.dims, keepdim, site);
}

namespace {

Tensor softmax_over(const Operand& a, const Dims& dims) {
  const Checked in = check_float_input("softmax", a, dims);
  if (in.input.numel() == 0) return in.input;
  const Tensor x = cast(in.input, wide(in.input.dtype()), a.site());
  const ShiftedExp parts = shifted_exp(x, in.dims, a.site());
  return cast(parts.exponential / parts.total, in.input.dtype(), a.site());
}

Tensor log_softmax_over(const Operand& a, const Dims& dims) {
  const Checked in = check_float_input("log_softmax", a, dims);
  if (in.input.numel() == 0) return in.input;
  const Tensor x = cast(in.input, wide(in.input.dtype()), a.site());
  const ShiftedExp parts = shifted_exp(x, in.dims, a.site());
  return cast(parts.shifted - log(parts.total), in.input.dtype(), a.site());
}

}  // namespace

Tensor softmax(const Operand& a, int dim) { return softmax_over(a, {dim}); }
Tensor softmax(const Operand& a, const Dims& dims) {
  return softmax_over(a, dims);
}
Tensor log_softmax(const Operand& a, int dim) { return log_softmax_over(a, {dim}); }
Tensor log_softmax(const Operand& a, const Dims& dims) {
  return log_softmax_over(a, dims);
}

Tensor softmin(const Operand& a, int dim) {
  const Tensor x = widened("softmin", a);
  return cast(softmax(Operand(neg(x), a.site()), dim), a.tensor().dtype(), a.site());
}

}  // namespace v0
}  // namespace lockstep
