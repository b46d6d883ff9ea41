// Running results along a dimension, and differences.
#include <fmt/format.h>

#include "graph/autocast.h"
#include "graph/ops/operand.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

// A tensor without dimensions scans as its one element.
Tensor scanned(ScanOp scan_op, const Tensor& x, int dim) {
  if (x.rank() == 0 && (dim == 0 || dim == -1)) return scan(scan_op, x.reshape({1}), 0).reshape({});
  return scan(scan_op, x, check_dim(x, dim));
}

// Sums of bool and integers are i64; halves sum in f32.
Tensor running(ScanOp scan_op, const Operand& a, int dim) {
  const Tensor& input = tensor_operand(a);
  const DType dtype = input.dtype();
  const DType working = is_float(dtype) ? wide(dtype) : DType::i64;
  return cast(scanned(scan_op, cast(input, working), dim), is_float(dtype) ? dtype : DType::i64);
}

ValuesIndices running_extremum(ScanOp position, const Operand& a, int dim) {
  const Tensor& input = tensor_operand(a);
  const Tensor index = scanned(position, input, dim);
  if (input.rank() == 0) return {input, index};
  return {gather(input, check_dim(input, dim), index), index};
}

}  // namespace

Tensor cumsum(const Operand& a, int dim) {
  const CallScope call("cumsum", a);
  if (is_autocasting()) {
    return with_autocast(
        DType::f32, [](const auto&... with) { return cumsum(with...); }, a, dim);
  }
  return running(ScanOp::sum, a, dim);
}
Tensor cumprod(const Operand& a, int dim) {
  const CallScope call("cumprod", a);
  if (is_autocasting()) {
    return with_autocast(
        DType::f32, [](const auto&... with) { return cumprod(with...); }, a, dim);
  }
  return running(ScanOp::prod, a, dim);
}

Tensor cumsum(const Operand& a, int dim, DType dtype) {
  const CallScope call("cumsum", a);
  const AutocastExchange outside(DType::f32);  // the dtype is given
  return cumsum(tensor_operand(a).to(dtype), dim);
}
Tensor cumprod(const Operand& a, int dim, DType dtype) {
  const CallScope call("cumprod", a);
  const AutocastExchange outside(DType::f32);  // the dtype is given
  return cumprod(tensor_operand(a).to(dtype), dim);
}

ValuesIndices cummax(const Operand& a, int dim) {
  const CallScope call("cummax", a);
  return running_extremum(ScanOp::argmax, a, dim);
}
ValuesIndices cummin(const Operand& a, int dim) {
  const CallScope call("cummin", a);
  return running_extremum(ScanOp::argmin, a, dim);
}

Tensor logcumsumexp(const Operand& a, int dim) {
  const CallScope call("logcumsumexp", a);
  if (is_autocasting()) return with_autocast(DType::f32, logcumsumexp, a, dim);
  Tensor x = widened(a);
  const bool scalar = x.rank() == 0;
  if (scalar) x = x.reshape({1});
  const int d = check_dim(x, dim);
  const std::int64_t length = x.shape()[d];
  // By doubling: after the step of size s every element covers the 2 s elements up to it.
  for (std::int64_t step = 1; step < length; step *= 2) {
    const Tensor earlier = x.narrow(d, 0, length - step);
    x = cat({x.narrow(d, 0, step), logaddexp(earlier, x.narrow(d, step, length - step))}, d);
  }
  return cast(scalar ? x.reshape({}) : x, a.tensor().dtype());
}

Tensor diff(const Operand& a, int n, int dim, const DiffOptions& options) {
  const CallScope call("diff", a);
  Tensor x = tensor_operand(a);
  const int d = check_dim(x, dim);
  if (n < 0) fail<ValueError>(fmt::format("{} is no number of times", n), {{"input", x}}, "use n >= 0");
  if (options.prepend || options.append) {
    std::vector<Tensor> parts;
    if (options.prepend) parts.push_back(*options.prepend);
    parts.push_back(x);
    if (options.append) parts.push_back(*options.append);
    x = cat(parts, d);
  }
  for (int i = 0; i < n && x.shape()[d] > 0; ++i) {
    const std::int64_t length = x.shape()[d] - 1;
    const Tensor later = x.narrow(d, 1, length);
    const Tensor earlier = x.narrow(d, 0, length);
    x = x.dtype() == DType::boolean ? bitwise_xor(later, earlier) : later - earlier;
  }
  return x;
}

}  // namespace v0
}  // namespace lockstep
