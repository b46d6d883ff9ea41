// Running results along a dimension, and differences.
#include <fmt/format.h>

#include "graph/ops/operand.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

// A tensor without dimensions scans as its one element.
Tensor scanned(const char* op, ScanOp scan_op, const Tensor& x, int dim, CallSite site) {
  if (x.rank() == 0 && (dim == 0 || dim == -1)) return scan(scan_op, x.reshape({1}, site), 0, site).reshape({}, site);
  return scan(scan_op, x, check_dim(op, x, dim, site), site);
}

// Sums of bool and integers are i64; halves sum in f32.
Tensor running(const char* op, ScanOp scan_op, const Operand& a, int dim) {
  const Tensor& input = tensor_operand(op, a);
  const DType dtype = input.dtype();
  const DType working = is_float(dtype) ? wide(dtype) : DType::i64;
  return cast(scanned(op, scan_op, cast(input, working, a.site()), dim, a.site()), is_float(dtype) ? dtype : DType::i64,
              a.site());
}

ValuesIndices running_extremum(const char* op, ScanOp position, const Operand& a, int dim) {
  const Tensor& input = tensor_operand(op, a);
  const CallSite site = a.site();
  const Tensor index = scanned(op, position, input, dim, site);
  if (input.rank() == 0) return {input, index};
  return {gather(input, check_dim(op, input, dim, site), index, site, op), index};
}

}  // namespace

Tensor cumsum(const Operand& a, int dim) {
  return running("cumsum", ScanOp::sum, a, dim);
}
Tensor cumprod(const Operand& a, int dim) {
  return running("cumprod", ScanOp::prod, a, dim);
}

Tensor cumsum(const Operand& a, int dim, DType dtype) {
  return cumsum(Operand(tensor_operand("cumsum", a).to(dtype, a.site()), a.site()), dim);
}
Tensor cumprod(const Operand& a, int dim, DType dtype) {
  return cumprod(Operand(tensor_operand("cumprod", a).to(dtype, a.site()), a.site()), dim);
}

ValuesIndices cummax(const Operand& a, int dim) {
  return running_extremum("cummax", ScanOp::argmax, a, dim);
}
ValuesIndices cummin(const Operand& a, int dim) {
  return running_extremum("cummin", ScanOp::argmin, a, dim);
}

Tensor logcumsumexp(const Operand& a, int dim) {
  const CallSite site = a.site();
  Tensor x = widened("logcumsumexp", a);
  const bool scalar = x.rank() == 0;
  if (scalar) x = x.reshape({1}, site);
  const int d = check_dim("logcumsumexp", x, dim, site);
  const std::int64_t length = x.shape()[d];
  // By doubling: after the step of size s every element covers the 2 s elements up to it.
  for (std::int64_t step = 1; step < length; step *= 2) {
    const Tensor earlier = x.narrow(d, 0, length - step, site);
    x = cat({x.narrow(d, 0, step, site), logaddexp(Operand(earlier, site), x.narrow(d, step, length - step, site))}, d,
            site);
  }
  return cast(scalar ? x.reshape({}, site) : x, a.tensor().dtype(), site);
}

Tensor diff(const Operand& a, int n, int dim, const DiffOptions& options) {
  const std::optional<Tensor>& prepend = options.prepend;
  const std::optional<Tensor>& append = options.append;
  const CallSite site = a.site();
  Tensor x = tensor_operand("diff", a);
  const int d = check_dim("diff", x, dim, site);
  if (n < 0) fail<ValueError>("diff", fmt::format("{} is no number of times", n), {{"input", x}}, "use n >= 0", site);
  if (prepend || append) {
    std::vector<Tensor> parts;
    if (prepend) parts.push_back(*prepend);
    parts.push_back(x);
    if (append) parts.push_back(*append);
    x = cat(parts, d, site);
  }
  for (int i = 0; i < n && x.shape()[d] > 0; ++i) {
    const std::int64_t length = x.shape()[d] - 1;
    const Tensor later = x.narrow(d, 1, length, site);
    const Tensor earlier = x.narrow(d, 0, length, site);
    x = x.dtype() == DType::boolean ? bitwise_xor(later, earlier) : later - earlier;
  }
  return x;
}

}  // namespace v0
}  // namespace lockstep
