// Division of f64 that leaves a remainder, and the other exact functions of two f64: fmod, remainder, floor_divide,
// copysign, nextafter, signbit. In the kernel subset: see prelude.h.

/// |a| modulo |b| for finite a and b, b not 0. A step reduces by a multiple of b 2^k for the k that makes the quotient
/// less than 2^53: the fma is exact then, and the result at most one divisor too small. One step is enough unless the
/// quotient is larger; 42 are for any two doubles.
FUNCTION double remainder_magnitude(double a, double b) {
  ULONG subnormal = SIGN_MASK64(BITS64(b) - ULONG(0x0010000000000000));
  ULONG enlarged = BITS64(b * 18014398509481984.0 /* 2^54 */) >> 52;
  LONG exponent_b = LONG((enlarged & subnormal) | ((BITS64(b) >> 52) & ~subnormal)) - LONG(subnormal & ULONG(54));
  DOUBLE rest = a;
  for (int step = 0; step < 64; ++step) {
    LONG places = LONG(BITS64(rest) >> 52) - exponent_b - LONG(51);
    LONG k = SELECT(places < LONG(0), LONG(0), places);
    DOUBLE divisor = scale_by_power(b, SELECT(k > LONG(2000), LONG(2000), k));
    DOUBLE quotient = float_trunc(rest / divisor);
    DOUBLE next = FMA64(-quotient, divisor, rest);
    rest = next + SELECT(next < 0.0, divisor, 0.0);
    if (k == LONG(0)) break;
  }
  return rest;
}

/// The result where it is defined: NaN for infinite a, b = 0 and NaN; a for infinite b.
FUNCTION double remainder_or_nan(ULONG result, ULONG abs_a, ULONG abs_b) {
  ULONG word = SELECT(abs_a >= ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), result);
  word = SELECT(abs_b > ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), word);
  return FROM_BITS64(SELECT(abs_b == ULONG(0), ULONG(0x7ff8000000000000), word));
}

FUNCTION double ls_fmod(double a, double b) {
  ULONG abs_a = BITS64(a) & ULONG(0x7fffffffffffffff);
  ULONG abs_b = BITS64(b) & ULONG(0x7fffffffffffffff);
  ULONG rest = abs_a;
  if (abs_a >= abs_b && abs_a < ULONG(0x7ff0000000000000) && abs_b != ULONG(0))
    rest = BITS64(remainder_magnitude(FROM_BITS64(abs_a), FROM_BITS64(abs_b)));
  return remainder_or_nan(rest | (BITS64(a) & ULONG(0x8000000000000000)), abs_a, abs_b);
}

/// A remainder of zero has the sign of a, any other one that of b, as in PyTorch.
FUNCTION double ls_remainder(double a, double b) {
  DOUBLE rest = ls_fmod(a, b);
  ULONG opposite = SIGN_MASK64(BITS64(rest) ^ BITS64(b));
  DOUBLE sum = rest + b;
  ULONG add = SELECT(rest == 0.0, ULONG(0), opposite);
  return blend(add, sum, rest);
}

/// The largest integer <= a / b; `quotient` is a / b, correctly rounded. Only where that was rounded up to an integer
/// is its floor one too many. a / 0 is an infinity, as in PyTorch.
FUNCTION double ls_floor_divide(double a, double b, double quotient) {
  ULONG abs_a = BITS64(a) & ULONG(0x7fffffffffffffff);
  ULONG abs_b = BITS64(b) & ULONG(0x7fffffffffffffff);
  ULONG sign = (BITS64(a) ^ BITS64(b)) & ULONG(0x8000000000000000);
  DOUBLE rounded = float_floor(quotient);
  // a - quotient b is exact for an integer quotient; the exact quotient is smaller if its sign is not that of b
  DOUBLE rest = FMA64(-quotient, b, a);
  ULONG below = (BITS64(rest) ^ BITS64(b)) >> 63;
  DOUBLE one = SELECT(below != ULONG(0), 1.0, 0.0);
  one = SELECT(rounded == quotient, one, 0.0);
  one = SELECT(rest != 0.0, one, 0.0);
  DOUBLE result = rounded - one;
  ULONG small = SELECT(abs_a == ULONG(0), sign, SELECT(sign != ULONG(0), ULONG(0xbff0000000000000) /* -1 */, ULONG(0)));
  ULONG bits = SELECT(abs_a < abs_b, small, BITS64(result));
  bits = SELECT(abs_a >= ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), bits);
  bits = SELECT(abs_b > ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), bits);
  bits = SELECT(abs_b == ULONG(0), BITS64(quotient), bits);
  return FROM_BITS64(bits);
}

FUNCTION double ls_copysign(double a, double b) {
  return FROM_BITS64((BITS64(a) & ULONG(0x7fffffffffffffff)) | (BITS64(b) & ULONG(0x8000000000000000)));
}

FUNCTION int ls_signbit(double a) {
  return int(BITS64(a) >> 63);
}

/// The neighbour of a on the side of b; b where they are equal.
FUNCTION double ls_nextafter(double a, double b) {
  ULONG abs_a = BITS64(a) & ULONG(0x7fffffffffffffff);
  ULONG abs_b = BITS64(b) & ULONG(0x7fffffffffffffff);
  ULONG up = SELECT(a < b, ULONG(1), ULONG(0));
  ULONG away = up ^ (BITS64(a) >> 63);  // 1: |a| grows
  ULONG result = BITS64(a) + away + away - ULONG(1);
  result = SELECT(abs_a == ULONG(0), (BITS64(b) & ULONG(0x8000000000000000)) | ULONG(1), result);
  result = SELECT(a == b, BITS64(b), result);
  result = SELECT(abs_a > ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), result);
  return FROM_BITS64(SELECT(abs_b > ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), result));
}
