// Pools by p-norms: sums of powers over windows, and their roots.
#include <cmath>

#include "graph/ops/pooling.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

Tensor power(const Tensor& x, double p) {
  if (p == 1) return x;
  if (p == 2) return square(x);
  return pow(x, p);
}

Tensor root(const Tensor& x, double p) {
  if (p == 1) return x;
  if (p == 2) return sqrt(x);
  return pow(x, 1 / p);
}

Tensor lp_pool(int rank, const Operand& a, double p, const Shape& kernel, const PoolOptions& options) {
  const Tensor& input = tensor_operand(a);
  check_float({"input", input});
  if (p == 0 || !std::isfinite(p)) {
    fail<ValueError>("the norm's power must be finite and not 0", {{"input", input}}, "use max_pool for infinity");
  }
  for (const std::int64_t padding : options.padding) {
    if (padding != 0) fail<ValueError>("takes no padding", {{"input", input}}, "use pad first");
  }
  const Tensor x = cast(input, wide(input.dtype()));
  const Tensor powers = power(x, p);
  // The mean of the taps that exist, times the taps of a whole window; where all exist, just their sum.
  PoolOptions sum = options;
  sum.divisor_override = 1;
  const auto pool = [&](const Tensor& tensor, const PoolOptions& how) {
    const Operand operand(tensor);
    return rank == 1   ? avg_pool1d(operand, kernel, how)
           : rank == 2 ? avg_pool2d(operand, kernel, how)
                       : avg_pool3d(operand, kernel, how);
  };
  Tensor total = pool(powers, sum);
  if (options.ceil_mode) {
    const Tensor taps = pool(full_like(powers, 1), sum);
    double whole = 1;
    for (int d = 0; d < rank; ++d) {
      whole *= static_cast<double>(kernel.rank() == 1 ? kernel[0] : kernel[d]);
    }
    total = total * (whole / taps);
  }
  return cast(root(total, p), input.dtype());
}

}  // namespace

Tensor lp_pool1d(const Operand& input, double p, const Shape& kernel, const PoolOptions& options) {
  const CallScope call("lp_pool1d", input);
  return lp_pool(1, input, p, kernel, options);
}
Tensor lp_pool2d(const Operand& input, double p, const Shape& kernel, const PoolOptions& options) {
  const CallScope call("lp_pool2d", input);
  return lp_pool(2, input, p, kernel, options);
}
Tensor lp_pool3d(const Operand& input, double p, const Shape& kernel, const PoolOptions& options) {
  const CallScope call("lp_pool3d", input);
  return lp_pool(3, input, p, kernel, options);
}

}  // namespace v0
}  // namespace lockstep
