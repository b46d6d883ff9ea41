// Division that leaves a remainder, and the other exact functions of two f32: fmod, remainder, floor_divide, copysign,
// nextafter, signbit. In the kernel subset: see prelude.h.
//
// The remainder is computed on significands in [1, 2), so that no subnormal takes part, by long division in base 2^22:
// twelve digits are enough for any two floats. A step multiplies what is left by a power of two, guesses the next digit
// with a reciprocal good to 2^-23, and subtracts in one fma, which is exact: the guess is off by less than 3/4, so what
// is left is a multiple of the divisor's last place and smaller than the divisor.

/// r 2^places modulo d, places cut to 0..22; the result is in (-3/4 d, 3/4 d) if r is. y is about 1 / d.
FUNCTION float remainder_step(float r, float d, float y, int places) {
  int most = SELECT(places > 22, 22, places);
  int cut = SELECT(most < 0, 0, most);
  FLOAT s = r * FROM_BITS(UINT(cut + 127) << 23);
  FLOAT t = FMA(s, y, FROM_BITS(0x4b400000u /* 12582912 */));
  FLOAT digit = t - FROM_BITS(0x4b400000u /* 12582912 */);
  FLOAT result = FMA(-digit, d, s);
  return result;
}

/// |a| modulo |b| is r 2^exponent, r in [0, d), and |b| is d 2^exponent; for finite a and b with |a| >= |b| > 0.
FUNCTION void remainder_parts(UINT abs_a, UINT abs_b, OUT(FLOAT, r), OUT(FLOAT, d), OUT(int, exponent)) {
  FLOAT m = FROM_BITS((abs_a & 0x007fffffu) | 0x3f800000u);
  d = FROM_BITS((abs_b & 0x007fffffu) | 0x3f800000u);
  exponent = int(abs_b >> 23) - 127;
  int places = int(abs_a >> 23) - int(abs_b >> 23);
  FLOAT y = reciprocal_estimate(d);
  FLOAT e = FMA(-d, y, FROM_BITS(0x3f800000u /* 1 */));
  y = FMA(y, e, y);
  FLOAT left = remainder_step(m, d, y, 0);
  left = remainder_step(left, d, y, places);
  left = remainder_step(left, d, y, places - 22);
  left = remainder_step(left, d, y, places - 44);
  left = remainder_step(left, d, y, places - 66);
  left = remainder_step(left, d, y, places - 88);
  left = remainder_step(left, d, y, places - 110);
  left = remainder_step(left, d, y, places - 132);
  left = remainder_step(left, d, y, places - 154);
  left = remainder_step(left, d, y, places - 176);
  left = remainder_step(left, d, y, places - 198);
  left = remainder_step(left, d, y, places - 220);
  left = remainder_step(left, d, y, places - 242);
  r = left + FROM_BITS(BITS(d) & (0u - (BITS(left) >> 31)));  // an exact difference is never -0
}

/// The bits of r 2^exponent for r in [0, 2), 0 where that is no normal number.
FUNCTION UINT remainder_bits(float r, int exponent) {
  int biased = int(BITS(r) >> 23) + exponent;
  UINT scaled = BITS(r) + (UINT(exponent) << 23);
  UINT result = SELECT(biased < 1, 0u, scaled);
  return SELECT(BITS(r) == 0u, 0u, result);
}

/// `result`, or NaN where there is no remainder: of infinities and NaN, by zero and NaN.
FUNCTION float remainder_or_nan(UINT result, UINT abs_a, UINT abs_b) {
  UINT checked = SELECT(abs_a >= 0x7f800000u, 0x7fc00000u, result);
  checked = SELECT(abs_b > 0x7f800000u, 0x7fc00000u, checked);
  checked = SELECT(abs_b < 0x00800000u, 0x7fc00000u, checked);
  return FROM_BITS(checked);
}

FUNCTION float ls_fmod(float a, float b) {
  UINT abs_a = BITS(a) & 0x7fffffffu;
  UINT abs_b = BITS(b) & 0x7fffffffu;
  FLOAT r;
  FLOAT d;
  int exponent;
  remainder_parts(abs_a, abs_b, r, d, exponent);
  UINT result = SELECT(abs_a < abs_b, abs_a, remainder_bits(r, exponent));
  return remainder_or_nan(result | (BITS(a) & 0x80000000u), abs_a, abs_b);
}

/// A remainder of zero has the sign of a, any other one that of b, as in PyTorch.
FUNCTION float ls_remainder(float a, float b) {
  UINT abs_a = BITS(a) & 0x7fffffffu;
  UINT abs_b = BITS(b) & 0x7fffffffu;
  UINT opposite = 0u - ((BITS(a) ^ BITS(b)) >> 31);
  FLOAT r;
  FLOAT d;
  int exponent;
  remainder_parts(abs_a, abs_b, r, d, exponent);
  FLOAT complement = d - r;
  UINT nonzero = SELECT(BITS(r) != 0u, opposite, 0u);
  FLOAT chosen = FROM_BITS((BITS(complement) & nonzero) | (BITS(r) & ~nonzero));
  UINT sign = (BITS(a) ^ nonzero) & 0x80000000u;
  UINT result = remainder_bits(chosen, exponent) | sign;
  // Where |a| < |b|: a, or a + b, the one sum here that rounds.
  FLOAT sum = a + b;
  UINT smaller = SELECT(abs_a < 0x00800000u, BITS(a), (BITS(sum) & opposite) | (BITS(a) & ~opposite));
  result = SELECT(abs_a < abs_b, smaller, result);
  return remainder_or_nan(result, abs_a, abs_b);
}

/// The largest integer <= a / b; `quotient` is a / b, correctly rounded. Only where that was rounded up to an integer
/// is its floor one too many. a / 0 is an infinity, as in PyTorch.
FUNCTION float ls_floor_divide(float a, float b, float quotient) {
  UINT abs_a = BITS(a) & 0x7fffffffu;
  UINT abs_b = BITS(b) & 0x7fffffffu;
  UINT sign = (BITS(a) ^ BITS(b)) & 0x80000000u;
  FLOAT rounded = float_floor(quotient);
  // |a| - |quotient| |b|, up to a power of two
  FLOAT m = FROM_BITS((abs_a & 0x007fffffu) | 0x3f800000u);
  FLOAT d = FROM_BITS((abs_b & 0x007fffffu) | 0x3f800000u);
  UINT places = (abs_a >> 23) - (abs_b >> 23);
  FLOAT q = FROM_BITS((BITS(quotient) & 0x7fffffffu) - (places << 23));
  FLOAT rest = FMA(-q, d, m);
  UINT too_large = 0u - ((BITS(rest) ^ sign) >> 31);  // the exact quotient is below the rounded one, if not equal
  too_large = too_large & mask_unequal(BITS(rest) & 0x7fffffffu, 0u) & ~mask_unequal(BITS(rounded), BITS(quotient));
  FLOAT result = rounded - FROM_BITS(0x3f800000u /* 1 */ & too_large);
  // |a| < |b|: -1, or a zero of the quotient's sign
  UINT opposite = 0u - (sign >> 31);
  UINT zero_a = mask_below(abs_a, 0x00800000u);
  UINT small = choose(zero_a, sign, 0xbf800000u /* -1 */ & opposite);
  UINT bits = choose(mask_below(abs_a, abs_b), small, BITS(result));
  bits = choose(mask_below(0x7f7fffffu, abs_a) | mask_below(0x7f800000u, abs_b), 0x7fc00000u, bits);
  return FROM_BITS(choose(mask_below(abs_b, 0x00800000u), BITS(quotient), bits));
}

FUNCTION float ls_copysign(float a, float b) {
  return FROM_BITS((BITS(a) & 0x7fffffffu) | (BITS(b) & 0x80000000u));
}

FUNCTION int ls_signbit(float a) {
  return int(BITS(a) >> 31);
}

/// The neighbour of a among the canonical numbers: next to 0 are those above the smallest normal. b where a equals b.
FUNCTION float ls_nextafter(float a, float b) {
  UINT abs_a = BITS(a) & 0x7fffffffu;
  UINT abs_b = BITS(b) & 0x7fffffffu;
  int key_a = max_key(a);
  int key_b = max_key(b);
  UINT down = SELECT(key_b < key_a, 0x80000000u, 0u);
  UINT shrinks = 0u - ((BITS(a) ^ down) >> 31);
  UINT result = BITS(a) + (shrinks | 1u);  // -1 or 1
  result = SELECT(abs_a < 0x00800000u, (BITS(b) & 0x80000000u) | 0x00800001u, result);
  result = SELECT(key_a == key_b, BITS(b), result);
  result = SELECT(abs_a > 0x7f800000u, 0x7fc00000u, result);
  result = SELECT(abs_b > 0x7f800000u, 0x7fc00000u, result);
  return FROM_BITS(result);
}
