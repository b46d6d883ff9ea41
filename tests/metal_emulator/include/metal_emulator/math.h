// Functions of floats and halves. Only those whose result the specification fixes to the bit in safe mode: exp, sin,
// pow and their like differ between devices, so a text that is to give the same bits everywhere cannot call them.
#pragma once

namespace metal {
namespace emulator_detail {
/// a * b + c rounded once. The product is exact in f64; the sum is rounded to odd, so that the last rounding is the
/// only one.
EMULATOR_INLINE half fma_half(half a, half b, half c) {
  const double product = double(a) * double(b), addend = double(c), sum = product + addend;
  const double part = sum - product, rest = (product - (sum - part)) + (addend - part);
  ulong bits = __builtin_bit_cast(ulong, sum);
  if (rest != 0 && (bits & 1) == 0 && __builtin_isfinite(sum)) bits += (rest > 0) == (sum > 0) ? 1 : -1;
  return half(__builtin_bit_cast(double, bits));
}
}  // namespace emulator_detail

#define EMULATOR_UNARY(name, builtin)   \
  EMULATOR_INLINE float name(float x) { \
    return builtin(x);                  \
  }                                     \
  EMULATOR_INLINE half name(half x) {   \
    return half(builtin(float(x)));     \
  }
#define EMULATOR_BINARY(name, builtin)           \
  EMULATOR_INLINE float name(float x, float y) { \
    return builtin(x, y);                        \
  }                                              \
  EMULATOR_INLINE half name(half x, half y) {    \
    return half(builtin(float(x), float(y)));    \
  }
#define EMULATOR_PREDICATE(name, builtin) \
  EMULATOR_INLINE bool name(float x) {    \
    return builtin(x);                    \
  }                                       \
  EMULATOR_INLINE bool name(half x) {     \
    return builtin(float(x));             \
  }

// In safe mode f32 division and square root are correctly rounded; of halves they are, by way of f32, too.
EMULATOR_UNARY(sqrt, __builtin_sqrtf)
EMULATOR_UNARY(fabs, __builtin_fabsf)
EMULATOR_UNARY(abs, __builtin_fabsf)
EMULATOR_UNARY(floor, __builtin_floorf)
EMULATOR_UNARY(ceil, __builtin_ceilf)
EMULATOR_UNARY(trunc, __builtin_truncf)
EMULATOR_UNARY(rint, __builtin_rintf)
EMULATOR_UNARY(round, __builtin_roundf)
EMULATOR_BINARY(copysign, __builtin_copysignf)
EMULATOR_BINARY(fmin, __builtin_fminf)
EMULATOR_BINARY(fmax, __builtin_fmaxf)
EMULATOR_BINARY(min, __builtin_fminf)
EMULATOR_BINARY(max, __builtin_fmaxf)
EMULATOR_PREDICATE(isnan, __builtin_isnan)
EMULATOR_PREDICATE(isinf, __builtin_isinf)
EMULATOR_PREDICATE(isfinite, __builtin_isfinite)
EMULATOR_PREDICATE(signbit, __builtin_signbit)
EMULATOR_INLINE float fma(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
EMULATOR_INLINE half fma(half a, half b, half c) {
  return emulator_detail::fma_half(a, b, c);
}
EMULATOR_INLINE float ldexp(float x, int exponent) {
  return __builtin_ldexpf(x, exponent);
}

namespace precise {
EMULATOR_INLINE float sqrt(float x) {
  return __builtin_sqrtf(x);
}
EMULATOR_INLINE float divide(float x, float y) {
  return x / y;
}
EMULATOR_INLINE float fma(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
}  // namespace precise

template <class T> EMULATOR_INLINE T select(T no, T yes, bool condition) {
  return condition ? yes : no;
}

}  // namespace metal
