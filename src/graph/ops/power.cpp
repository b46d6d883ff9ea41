// Powers. Exponents that have a plain formula take it, as in PyTorch; the others are the row of ops.def.
#include "graph/ops/operand.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

Tensor pow(const Operand& a, const Operand& b) {
  if (b.is_scalar() && !a.is_scalar() && a.tensor().defined() && is_float(a.tensor().dtype())) {
    const double exponent = b.scalar();
    const CallSite site = a.site();
    if (exponent == 0) return ones_like(a.tensor(), site);
    if (exponent == 1) return a.tensor();
    if (exponent == 2) return mul(a, a);
    if (exponent == 0.5) return sqrt(a);
    if (exponent == -0.5) return rsqrt(a);
    if (exponent == -1) return reciprocal(a);
    if (exponent == 3 || exponent == -2) {
      const Tensor x = widened("pow", a);
      return cast(exponent == 3 ? x * x * x : reciprocal(x * x), a.tensor().dtype(), site);
    }
  }
  return elementwise(Op::pow, {a, b});
}

}  // namespace v0
}  // namespace lockstep
