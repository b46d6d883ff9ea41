// Reductions that are made of others: without NaN, pairs of results, norms.
#include <cmath>
#include <limits>

#include <lockstep/autograd.h>

#include "graph/autocast.h"
#include "graph/ops/operand.h"
#include "graph/ops/reduction.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

Tensor nansum(const Operand& a, const Dims& dims, bool keepdim) {
  const CallScope call("nansum", a);
  if (is_autocasting()) return with_autocast(DType::f32, nansum, a, dims, keepdim);
  const Tensor& input = tensor_operand(a);
  if (!is_float(input.dtype())) return sum(a, dims, keepdim);
  return sum(where(isnan(a), 0.0, a), dims, keepdim);
}

Tensor nanmean(const Operand& a, const Dims& dims, bool keepdim) {
  const CallScope call("nanmean", a);
  if (is_autocasting()) return with_autocast(DType::f32, nanmean, a, dims, keepdim);
  const Checked in = check_float_input(a, dims);
  const Tensor x = cast(in.input, wide(in.input.dtype()));
  const Tensor missing = isnan(x);
  const Tensor total = reduce(ReduceOp::sum, where(missing, 0.0, x), in.dims);
  const Tensor count = reduce(ReduceOp::sum, cast(logical_not(missing), DType::i64), in.dims);
  return drop_dims(cast(total / cast(count, x.dtype()), in.input.dtype()), in.dims, keepdim);
}

Tensor count_nonzero(const Operand& a, const Dims& dims, bool keepdim) {
  const CallScope call("count_nonzero", a);
  const Checked in = check_input(a, dims);
  const Tensor counted = cast(ne(in.input, 0), DType::i64);
  return drop_dims(reduce(ReduceOp::sum, counted, in.dims), in.dims, keepdim);
}

Tensor trace(const Operand& a) {
  const CallScope call("trace", a);
  const Tensor& x = tensor_operand(a);
  if (x.rank() != 2) fail<ShapeError>("needs a matrix", {{"input", x}}, "give two dimensions");
  // Every (columns + 1)-th element of the rows, one after the other.
  const std::int64_t columns = x.shape()[1];
  const std::int64_t length = std::min(x.shape()[0], columns);
  if (length == 0) return sum(x);
  const Tensor diagonal = x.narrow(0, 0, length).reshape({length * columns}).slice(0, {.step = columns + 1});
  return sum(diagonal);
}

namespace {

std::pair<Tensor, Tensor> spread_and_mean(const Operand& a, const Dims& dims, bool keepdim, double correction,
                                          bool root) {
  const Checked in = check_float_input(a, dims);
  const Tensor x = cast(in.input, wide(in.input.dtype()));
  const Tensor center = mean_of(x, in.dims);
  const Tensor variance = moments(x, in.dims, correction).variance;
  const auto finished = [&](const Tensor& value) { return drop_dims(cast(value, in.input.dtype()), in.dims, keepdim); };
  return {finished(root ? root_of_squares(variance) : variance), finished(center)};
}

}  // namespace

std::pair<Tensor, Tensor> var_mean(const Operand& a, const Dims& dims, bool keepdim, double correction) {
  const CallScope call("var_mean", a);
  return spread_and_mean(a, dims, keepdim, correction, false);
}
std::pair<Tensor, Tensor> std_mean(const Operand& a, const Dims& dims, bool keepdim, double correction) {
  const CallScope call("std_mean", a);
  return spread_and_mean(a, dims, keepdim, correction, true);
}

namespace {

// size ^ p of what is not negative. Its gradient at 0 is 0, as in PyTorch: that of pow would be inf times 0.
Tensor power_of_size(const Tensor& size, double p) {
  if (!is_tracked(size)) return pow(size, p);
  const Tensor is_zero = size == 0.0;
  const Tensor power = pow(where(is_zero, 1.0, size), p);
  return where(is_zero, p > 0 ? 0.0 : std::numeric_limits<double>::infinity(), power);
}

}  // namespace

Tensor vector_norm(const Operand& a, double p, const Dims& dims, bool keepdim) {
  const CallScope call("vector_norm", a);
  if (is_autocasting()) return with_autocast(DType::f32, vector_norm, a, p, dims, keepdim);
  if (p == 2) return norm(a, dims, keepdim);
  const Checked in = check_float_input(a, dims);
  if (std::isnan(p)) fail<ValueError>("p is NaN", {{"input", a}}, "use a number");
  const Tensor x = cast(in.input, wide(in.input.dtype()));
  const Tensor size = abs(x);
  Tensor length;
  if (std::isinf(p)) {
    check_not_empty(in);
    length = reduce(p > 0 ? ReduceOp::max : ReduceOp::min, size, in.dims);
  } else if (p == 0) {
    length = reduce(ReduceOp::sum, cast(ne(x, 0.0), x.dtype()), in.dims);
  } else if (p == 1) {
    length = reduce(ReduceOp::sum, size, in.dims);
  } else {
    length = power_of_size(reduce(ReduceOp::sum, power_of_size(size, p), in.dims), 1 / p);
  }
  return drop_dims(cast(length, in.input.dtype()), in.dims, keepdim);
}

namespace {

ValuesIndices extremum_along(ReduceOp reduction, const Operand& a, int dim, bool keepdim) {
  const Checked in = check_input(a, {dim});
  check_not_empty(in);
  const Tensor index = reduce(reduction, in.input, in.dims);
  const Tensor value = in.input.rank() == 0 ? in.input : gather(in.input, check_dim(in.input, dim), index);
  return {drop_dims(value, in.dims, keepdim), drop_dims(index, in.dims, keepdim)};
}

}  // namespace

ValuesIndices max(const Operand& a, int dim, bool keepdim) {
  const CallScope call("max", a);
  return extremum_along(ReduceOp::argmax, a, dim, keepdim);
}
ValuesIndices min(const Operand& a, int dim, bool keepdim) {
  const CallScope call("min", a);
  return extremum_along(ReduceOp::argmin, a, dim, keepdim);
}
Tensor max(const Operand& a) {
  const CallScope call("max", a);
  return amax(a);
}
Tensor min(const Operand& a) {
  const CallScope call("min", a);
  return amin(a);
}

std::pair<Tensor, Tensor> aminmax(const Operand& a, const Dims& dims, bool keepdim) {
  const CallScope call("aminmax", a);
  return {amin(a, dims, keepdim), amax(a, dims, keepdim)};
}

}  // namespace v0
}  // namespace lockstep
