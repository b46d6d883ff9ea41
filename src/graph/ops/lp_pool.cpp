// Pools by p-norms: sums of powers over windows, and their roots.
#include <cmath>

#include "graph/ops/pooling.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

Tensor power(const Tensor& x, double p, CallSite site) {
  if (p == 1) return x;
  if (p == 2) return square(Operand(x, site));
  return pow(Operand(x, site), Operand(p, site));
}

Tensor root(const Tensor& x, double p, CallSite site) {
  if (p == 1) return x;
  if (p == 2) return sqrt(Operand(x, site));
  return pow(Operand(x, site), Operand(1 / p, site));
}

Tensor lp_pool(const char* op, int rank, const Operand& a, double p, const Shape& kernel, const PoolOptions& options) {
  const CallSite site = a.site();
  const Tensor& input = tensor_operand(op, a);
  check_float(op, {"input", input}, site);
  if (p == 0 || !std::isfinite(p)) {
    fail<ValueError>(op, "the norm's power must be finite and not 0", {{"input", input}}, "use max_pool for infinity",
                     site);
  }
  for (const std::int64_t padding : options.padding) {
    if (padding != 0) fail<ValueError>(op, "takes no padding", {{"input", input}}, "use pad first", site);
  }
  const Tensor x = cast(input, wide(input.dtype()), site);
  const Tensor powers = power(x, p, site);
  // The mean of the taps that exist, times the taps of a whole window; where all exist, just their sum.
  PoolOptions sum = options;
  sum.divisor_override = 1;
  const auto pool = [&](const Tensor& tensor, const PoolOptions& how) {
    const Operand operand(tensor, site);
    return rank == 1   ? avg_pool1d(operand, kernel, how)
           : rank == 2 ? avg_pool2d(operand, kernel, how)
                       : avg_pool3d(operand, kernel, how);
  };
  Tensor total = pool(powers, sum);
  if (options.ceil_mode) {
    const Tensor taps = pool(full_like(powers, 1, site), sum);
    double whole = 1;
    for (int d = 0; d < rank; ++d) {
      whole *= static_cast<double>(kernel.rank() == 1 ? kernel[0] : kernel[d]);
    }
    total = total * Operand(Operand(whole, site) / Operand(taps, site), site);
  }
  return cast(root(total, p, site), input.dtype(), site);
}

}  // namespace

Tensor lp_pool1d(const Operand& input, double p, const Shape& kernel, const PoolOptions& options) {
  return lp_pool("lp_pool1d", 1, input, p, kernel, options);
}
Tensor lp_pool2d(const Operand& input, double p, const Shape& kernel, const PoolOptions& options) {
  return lp_pool("lp_pool2d", 2, input, p, kernel, options);
}
Tensor lp_pool3d(const Operand& input, double p, const Shape& kernel, const PoolOptions& options) {
  return lp_pool("lp_pool3d", 3, input, p, kernel, options);
}

}  // namespace v0
}  // namespace lockstep
