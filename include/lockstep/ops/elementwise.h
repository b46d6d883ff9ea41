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
LOCKSTEP_API Tensor floor(const Operand& a);
LOCKSTEP_API Tensor ceil(const Operand& a);
LOCKSTEP_API Tensor trunc(const Operand& a);
/// Halves to even.
LOCKSTEP_API Tensor round(const Operand& a);
/// The fraction, with a's sign.
LOCKSTEP_API Tensor frac(const Operand& a);
LOCKSTEP_API Tensor sqrt(const Operand& a);
LOCKSTEP_API Tensor rsqrt(const Operand& a);
LOCKSTEP_API Tensor reciprocal(const Operand& a);
LOCKSTEP_API Tensor exp(const Operand& a);
LOCKSTEP_API Tensor log(const Operand& a);
LOCKSTEP_API Tensor exp2(const Operand& a);
/// exp(a) - 1, exact near 0.
LOCKSTEP_API Tensor expm1(const Operand& a);
LOCKSTEP_API Tensor log2(const Operand& a);
LOCKSTEP_API Tensor log10(const Operand& a);
/// log(1 + a), exact near 0.
LOCKSTEP_API Tensor log1p(const Operand& a);
LOCKSTEP_API Tensor sin(const Operand& a);
LOCKSTEP_API Tensor cos(const Operand& a);
LOCKSTEP_API Tensor tan(const Operand& a);
LOCKSTEP_API Tensor asin(const Operand& a);
LOCKSTEP_API Tensor acos(const Operand& a);
LOCKSTEP_API Tensor atan(const Operand& a);
LOCKSTEP_API Tensor sinh(const Operand& a);
LOCKSTEP_API Tensor cosh(const Operand& a);
LOCKSTEP_API Tensor tanh(const Operand& a);
LOCKSTEP_API Tensor asinh(const Operand& a);
LOCKSTEP_API Tensor acosh(const Operand& a);
LOCKSTEP_API Tensor atanh(const Operand& a);
LOCKSTEP_API Tensor erf(const Operand& a);
/// 1 - erf(a).
LOCKSTEP_API Tensor erfc(const Operand& a);
LOCKSTEP_API Tensor erfinv(const Operand& a);
/// log |Gamma(a)|.
LOCKSTEP_API Tensor lgamma(const Operand& a);
/// The derivative of lgamma.
LOCKSTEP_API Tensor digamma(const Operand& a);
LOCKSTEP_API Tensor isnan(const Operand& a);
LOCKSTEP_API Tensor isfinite(const Operand& a);
LOCKSTEP_API Tensor isinf(const Operand& a);
/// Whether the sign is set, of -0 as well.
LOCKSTEP_API Tensor signbit(const Operand& a);
/// Every bit inverted; of a bool: not a.
LOCKSTEP_API Tensor bitwise_not(const Operand& a);

LOCKSTEP_API Tensor add(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor sub(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor mul(const Operand& a, const Operand& b);
/// True division of floats. Integers: DTypeError that names the cast.
LOCKSTEP_API Tensor div(const Operand& a, const Operand& b);
/// The largest integer <= a / b, in the dtype of the operands. Integers: 0 where b is 0.
LOCKSTEP_API Tensor floor_divide(const Operand& a, const Operand& b);
/// The exact remainder of the division that truncates: it has the sign of a. Integers: 0 where b is 0.
LOCKSTEP_API Tensor fmod(const Operand& a, const Operand& b);
/// The remainder of the division that floors: it has the sign of b, but a zero has that of a. Rounded once.
/// Integers: 0 where b is 0.
LOCKSTEP_API Tensor remainder(const Operand& a, const Operand& b);
/// Integers wrap around; negative powers: 0, 1 or -1. Float scalars 2, 0.5, -0.5, -1: a * a, sqrt, rsqrt, reciprocal.
LOCKSTEP_API Tensor pow(const Operand& a, const Operand& b);
/// The angle of the point (b, a).
LOCKSTEP_API Tensor atan2(const Operand& a, const Operand& b);
/// sqrt(a^2 + b^2) without overflow or underflow on the way.
LOCKSTEP_API Tensor hypot(const Operand& a, const Operand& b);
/// log(exp(a) + exp(b)).
LOCKSTEP_API Tensor logaddexp(const Operand& a, const Operand& b);
/// a * log(b); 0 where a is 0, unless b is NaN.
LOCKSTEP_API Tensor xlogy(const Operand& a, const Operand& b);
/// |a| with the sign of b.
LOCKSTEP_API Tensor copysign(const Operand& a, const Operand& b);
/// The next number after a in the direction of b. f32: the next canonical one (docs/numerics.md section 1).
LOCKSTEP_API Tensor nextafter(const Operand& a, const Operand& b);
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
/// a * 2^b, wrapping; 0 where b is negative or not below the width of the dtype.  PyTorch: bitwise_left_shift.
LOCKSTEP_API Tensor shift_left(const Operand& a, const Operand& b);
/// floor(a / 2^b); 0, or -1 for negative a, where b is negative or not below the width.  PyTorch: bitwise_right_shift.
LOCKSTEP_API Tensor shift_right(const Operand& a, const Operand& b);
/// b where the bool tensor `condition` holds, else c. Keeps bits.
LOCKSTEP_API Tensor where(const Operand& condition, const Operand& b, const Operand& c);

inline Tensor operator-(const Operand& a) { return neg(a); }
inline Tensor operator+(const Operand& a, const Operand& b) { return add(a, b); }
inline Tensor operator-(const Operand& a, const Operand& b) { return sub(a, b); }
inline Tensor operator*(const Operand& a, const Operand& b) { return mul(a, b); }
inline Tensor operator/(const Operand& a, const Operand& b) { return div(a, b); }
inline Tensor operator<(const Operand& a, const Operand& b) { return lt(a, b); }
inline Tensor operator<=(const Operand& a, const Operand& b) { return le(a, b); }
inline Tensor operator>(const Operand& a, const Operand& b) { return gt(a, b); }
inline Tensor operator>=(const Operand& a, const Operand& b) { return ge(a, b); }
inline Tensor operator==(const Operand& a, const Operand& b) { return eq(a, b); }
inline Tensor operator%(const Operand& a, const Operand& b) {
  return remainder(a, b);
}
/// Bits, and logic of bool: (x > 0) & ~(x > 5).
inline Tensor operator&(const Operand& a, const Operand& b) {
  return bitwise_and(a, b);
}
inline Tensor operator|(const Operand& a, const Operand& b) {
  return bitwise_or(a, b);
}
inline Tensor operator^(const Operand& a, const Operand& b) {
  return bitwise_xor(a, b);
}
inline Tensor operator~(const Operand& a) {
  return bitwise_not(a);
}
// A tensor is no condition, and neither are two; compilers show these lines.
Tensor operator&&(const Operand& a, const Operand& b) = delete;  // write a & b
Tensor operator||(const Operand& a, const Operand& b) = delete;  // write a | b
Tensor operator!(const Operand& a) = delete;                     // write ~a
inline Tensor operator!=(const Operand& a, const Operand& b) { return ne(a, b); }

}  // namespace v0
}  // namespace lockstep
