// Reductions that are made of others: without NaN, pairs of results, norms.
#include <cmath>
#include <limits>

#include <lockstep/autograd.h>

#include "graph/ops/operand.h"
#include "graph/ops/reduction.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

Tensor nansum(const Operand& a, const Dims& dims, bool keepdim) {
  const Tensor& input = tensor_operand("nansum", a);
  if (!is_float(input.dtype())) return sum(a, dims, keepdim);
  return sum(Operand(where(Operand(isnan(a), a.site()), Operand(0.0, a.site()), a), a.site()), dims, keepdim);
}

Tensor nanmean(const Operand& a, const Dims& dims, bool keepdim) {
  const Checked in = check_float_input("nanmean", a, dims);
  const CallSite site = a.site();
  const Tensor x = cast(in.input, wide(in.input.dtype()), site);
  const Tensor missing = isnan(Operand(x, site));
  const Tensor total = reduce(ReduceOp::sum, where(missing, 0.0, x), in.dims, site);
  const Tensor count = reduce(ReduceOp::sum, cast(logical_not(missing), DType::i64, site), in.dims, site);
  return drop_dims(cast(total / cast(count, x.dtype(), site), in.input.dtype(), site), in.dims, keepdim, site);
}

Tensor count_nonzero(const Operand& a, const Dims& dims, bool keepdim) {
  const Checked in = check("count_nonzero", a, dims);
  const Tensor counted = cast(ne(Operand(in.input, a.site()), Operand(0, a.site())), DType::i64, a.site());
  return drop_dims(reduce(ReduceOp::sum, counted, in.dims, a.site()), in.dims, keepdim, a.site());
}

Tensor trace(const Operand& a) {
  const Tensor& x = tensor_operand("trace", a);
  const CallSite site = a.site();
  if (x.rank() != 2) fail<ShapeError>("trace", "needs a matrix", {{"input", x}}, "give two dimensions", site);
  // Every (columns + 1)-th element of the rows, one after the other.
  const std::int64_t columns = x.shape()[1];
  const std::int64_t length = std::min(x.shape()[0], columns);
  if (length == 0) return sum(Operand(x, site));
  const Tensor diagonal =
      x.narrow(0, 0, length, site).reshape({length * columns}, site).slice(0, {.step = columns + 1}, site);
  return sum(Operand(diagonal, site));
}

namespace {

std::pair<Tensor, Tensor> spread_and_mean(const char* op, const Operand& a, const Dims& dims, bool keepdim,
                                          double correction, bool root) {
  const Checked in = check_float_input(op, a, dims);
  const CallSite site = a.site();
  const Tensor x = cast(in.input, wide(in.input.dtype()), site);
  const Tensor center = mean_of(x, in.dims, site);
  const Tensor variance = moments(x, in.dims, correction, site).variance;
  const auto finished = [&](const Tensor& value) {
    return drop_dims(cast(value, in.input.dtype(), site), in.dims, keepdim, site);
  };
  return {finished(root ? root_of_squares(variance, site) : variance), finished(center)};
}

}  // namespace

std::pair<Tensor, Tensor> var_mean(const Operand& a, const Dims& dims, bool keepdim, double correction) {
  return spread_and_mean("var_mean", a, dims, keepdim, correction, false);
}
std::pair<Tensor, Tensor> std_mean(const Operand& a, const Dims& dims, bool keepdim, double correction) {
  return spread_and_mean("std_mean", a, dims, keepdim, correction, true);
}

namespace {

// size ^ p of what is not negative. Its gradient at 0 is 0, as in PyTorch: that of pow would be inf times 0.
Tensor power_of_size(const Tensor& size, double p, CallSite site) {
  if (!is_tracked(size)) return pow(Operand(size, site), Operand(p, site));
  const Tensor is_zero = size == 0.0;
  const Tensor power = pow(Operand(where(is_zero, 1.0, size), site), Operand(p, site));
  return where(is_zero, p > 0 ? 0.0 : std::numeric_limits<double>::infinity(), power);
}

}  // namespace

Tensor vector_norm(const Operand& a, double p, const Dims& dims, bool keepdim) {
  if (p == 2) return norm(a, dims, keepdim);
  const Checked in = check_float_input("vector_norm", a, dims);
  const CallSite site = a.site();
  if (std::isnan(p)) fail<ValueError>("vector_norm", "p is NaN", {{"input", a}}, "use a number", site);
  const Tensor x = cast(in.input, wide(in.input.dtype()), site);
  const Tensor size = abs(Operand(x, site));
  Tensor length;
  if (std::isinf(p)) {
    check_not_empty("vector_norm", in, site);
    length = reduce(p > 0 ? ReduceOp::max : ReduceOp::min, size, in.dims, site);
  } else if (p == 0) {
    length = reduce(ReduceOp::sum, cast(ne(x, 0.0), x.dtype(), site), in.dims, site);
  } else if (p == 1) {
    length = reduce(ReduceOp::sum, size, in.dims, site);
  } else {
    length = power_of_size(reduce(ReduceOp::sum, power_of_size(size, p, site), in.dims, site), 1 / p, site);
  }
  return drop_dims(cast(length, in.input.dtype(), site), in.dims, keepdim, site);
}

namespace {

ValuesIndices extremum_along(const char* op, ReduceOp reduction, const Operand& a, int dim, bool keepdim) {
  const Checked in = check(op, a, {dim});
  check_not_empty(op, in, a.site());
  const CallSite site = a.site();
  const Tensor index = reduce(reduction, in.input, in.dims, site);
  const Tensor value =
      in.input.rank() == 0 ? in.input : gather(in.input, check_dim(op, in.input, dim, site), index, site, op);
  return {drop_dims(value, in.dims, keepdim, site), drop_dims(index, in.dims, keepdim, site)};
}

}  // namespace

ValuesIndices max(const Operand& a, int dim, bool keepdim) {
  return extremum_along("max", ReduceOp::argmax, a, dim, keepdim);
}
ValuesIndices min(const Operand& a, int dim, bool keepdim) {
  return extremum_along("min", ReduceOp::argmin, a, dim, keepdim);
}
Tensor max(const Operand& a) {
  return amax(a);
}
Tensor min(const Operand& a) {
  return amin(a);
}

std::pair<Tensor, Tensor> aminmax(const Operand& a, const Dims& dims, bool keepdim) {
  return {amin(a, dims, keepdim), amax(a, dims, keepdim)};
}

}  // namespace v0
}  // namespace lockstep
