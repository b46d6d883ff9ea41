// Ops that work element by element; operands broadcast. kernels/ops.def has their values and gradients.
#pragma once

#include <optional>
#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

LOCKSTEP_API Tensor neg(const Operand& a);
LOCKSTEP_API Tensor abs(const Operand& a);
/// -1, 0 or 1; NaN stays NaN.
LOCKSTEP_API Tensor sign(const Operand& a);
LOCKSTEP_API Tensor relu(const Operand& a);
LOCKSTEP_API Tensor floor(const Operand& a);
LOCKSTEP_API Tensor ceil(const Operand& a);
LOCKSTEP_API Tensor trunc(const Operand& a);
/// Halves to even.
LOCKSTEP_API Tensor round(const Operand& a);
LOCKSTEP_API Tensor sqrt(const Operand& a);
LOCKSTEP_API Tensor rsqrt(const Operand& a);
LOCKSTEP_API Tensor reciprocal(const Operand& a);
LOCKSTEP_API Tensor square(const Operand& a);
LOCKSTEP_API Tensor exp(const Operand& a);
LOCKSTEP_API Tensor log(const Operand& a);
LOCKSTEP_API Tensor sin(const Operand& a);
LOCKSTEP_API Tensor cos(const Operand& a);
LOCKSTEP_API Tensor tanh(const Operand& a);
LOCKSTEP_API Tensor sigmoid(const Operand& a);
LOCKSTEP_API Tensor erf(const Operand& a);
/// x * Phi(x).  PyTorch: gelu(approximate='none').
LOCKSTEP_API Tensor gelu(const Operand& a);
/// The tanh approximation.  PyTorch: gelu(approximate='tanh').
LOCKSTEP_API Tensor gelu_tanh(const Operand& a);
/// x * sigmoid(x).
LOCKSTEP_API Tensor silu(const Operand& a);
LOCKSTEP_API Tensor leaky_relu(const Operand& a, double negative_slope = 0.01);
/// Absent bounds do not clamp. NaN stays NaN.
LOCKSTEP_API Tensor clamp(const Operand& a, std::optional<double> min, std::optional<double> max);
LOCKSTEP_API Tensor isnan(const Operand& a);
LOCKSTEP_API Tensor isfinite(const Operand& a);
LOCKSTEP_API Tensor logical_not(const Operand& a);

LOCKSTEP_API Tensor add(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor sub(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor mul(const Operand& a, const Operand& b);
/// True division of floats. Integers: DTypeError that names the cast.
LOCKSTEP_API Tensor div(const Operand& a, const Operand& b);
/// NaN wins.
LOCKSTEP_API Tensor maximum(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor minimum(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor eq(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor ne(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor lt(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor le(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor gt(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor ge(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor bitwise_and(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor bitwise_or(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor bitwise_xor(const Operand& a, const Operand& b);
/// b where the bool tensor `condition` holds, else c. Keeps bits.
LOCKSTEP_API Tensor where(const Operand& condition, const Operand& b, const Operand& c);
/// `value` where the bool tensor `mask` holds.
LOCKSTEP_API Tensor masked_fill(const Operand& a, const Operand& mask, double value);

LOCKSTEP_API Tensor operator-(const Tensor& a);
inline Tensor operator+(const Operand& a, const Operand& b) { return add(a, b); }
inline Tensor operator-(const Operand& a, const Operand& b) { return sub(a, b); }
inline Tensor operator*(const Operand& a, const Operand& b) { return mul(a, b); }
inline Tensor operator/(const Operand& a, const Operand& b) { return div(a, b); }
inline Tensor operator<(const Operand& a, const Operand& b) { return lt(a, b); }
inline Tensor operator<=(const Operand& a, const Operand& b) { return le(a, b); }
inline Tensor operator>(const Operand& a, const Operand& b) { return gt(a, b); }
inline Tensor operator>=(const Operand& a, const Operand& b) { return ge(a, b); }
inline Tensor operator==(const Operand& a, const Operand& b) { return eq(a, b); }
inline Tensor operator!=(const Operand& a, const Operand& b) { return ne(a, b); }

}  // namespace v0
}  // namespace lockstep
