// f64: exp2, expm1, sinh, cosh, pow, hypot. In the kernel subset: see prelude.h. tools/fit_f64.py prints the
// coefficients.

FUNCTION double ls_exp2(double x) {
  ULONG bits = BITS64(x);
  ULONG magnitude = bits & ULONG(0x7fffffffffffffff);
  DOUBLE limited = FROM_BITS64(SELECT(magnitude > ULONG(0x4090e00000000000) /* 1080 */,
                                      (bits & ULONG(0x8000000000000000)) | ULONG(0x4090e00000000000), bits));
  DOUBLE k = float_round(limited);
  DOUBLE f = limited - k;
  DOUBLE r = f * FROM_BITS64(ULONG(0x3fe62e42fefa39ef) /* 0.693147181 */);
  DOUBLE r_low = FMA64(f, FROM_BITS64(ULONG(0x3fe62e42fefa39ef) /* 0.693147181 */), -r);
  r_low = FMA64(f, FROM_BITS64(ULONG(0x3c7abc9e3b39803f) /* 2.31904681e-17 */), r_low);
  DOUBLE high;
  DOUBLE low;
  exp_near_zero(r, r_low, high, low);
  LONG n = LONG(BITS64(k + 6755399441055744.0 /* 1.5 * 2^52 */) - ULONG(0x4338000000000000));
  ULONG result = BITS64(scale_by_power(high, n));
  return FROM_BITS64(SELECT(magnitude > ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), result));
}

FUNCTION double ls_expm1(double x) {
  ULONG bits = BITS64(x);
  ULONG magnitude = bits & ULONG(0x7fffffffffffffff);
  DOUBLE above = FROM_BITS64(SELECT(magnitude > ULONG(0x4087500000000000) /* 746 */,
                                    (bits & ULONG(0x8000000000000000)) | ULONG(0x4087500000000000), bits));
  DOUBLE limited = SELECT(above < -40.0, -40.0, above);
  DOUBLE high;
  DOUBLE low;
  LONG n;
  exp_parts(limited, 0.0, high, low, n);
  LONG m = SELECT(n > LONG(200), LONG(200), n);
  // (high + low - 2^-n) 2^n
  DOUBLE one = FROM_BITS64(ULONG(LONG(1023) - m) << 52);
  DOUBLE d;
  DOUBLE d_low;
  two_sum(high, -one, d, d_low);
  DOUBLE value = d + (d_low + low);
  DOUBLE scaled = scale_by_power(value, n);
  ULONG tiny = SIGN_MASK64(magnitude - ULONG(0x3c90000000000000) /* 2^-54 */);
  ULONG result = BITS64(blend(tiny, x, scaled));
  return FROM_BITS64(SELECT(magnitude > ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), result));
}

/// e^a = (high + low) 2^n and e^-a = (inverse + inverse_low) 2^n for 0 <= a <= 746; what is far below e^a may be wrong.
FUNCTION void exp_both(double a, OUT(DOUBLE, high), OUT(DOUBLE, low), OUT(DOUBLE, inverse), OUT(DOUBLE, inverse_low),
                       OUT(LONG, n)) {
  exp_parts(a, 0.0, high, low, n);
  DOUBLE q;
  DOUBLE q_low;
  quotient_parts(1.0, 0.0, high, low, q, q_low);
  LONG m = SELECT(n > LONG(200), LONG(200), n);
  DOUBLE scale = FROM_BITS64(ULONG(LONG(1023) - m - m) << 52);
  inverse = q * scale;
  inverse_low = q_low * scale;
}

FUNCTION double ls_sinh(double x) {
  ULONG magnitude = BITS64(x) & ULONG(0x7fffffffffffffff);
  ULONG sign = BITS64(x) & ULONG(0x8000000000000000);
  DOUBLE a = FROM_BITS64(SELECT(magnitude > ULONG(0x4087500000000000) /* 746 */, ULONG(0x4087500000000000), magnitude));
  DOUBLE high;
  DOUBLE low;
  DOUBLE inverse;
  DOUBLE inverse_low;
  LONG n;
  exp_both(a, high, low, inverse, inverse_low, n);
  DOUBLE d;
  DOUBLE d_low;
  fast_two_sum(high, -inverse, d, d_low);
  DOUBLE difference = d + (d_low + (low - inverse_low));
  DOUBLE large = scale_by_power(difference, n - LONG(1));
  DOUBLE z = a * a;
  DOUBLE p = FROM_BITS64(ULONG(0x3d6afe2527aaba13) /* 7.67180223e-13 */);
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3de6123e71bcf409) /* 1.60589591e-10 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3e5ae6456a8f8a26) /* 2.50521085e-08 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3ec71de3a5565297) /* 2.75573192e-06 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3f2a01a01a01a02d) /* 0.000198412698 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3f81111111111111) /* 0.00833333333 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3fc5555555555555) /* 0.166666667 */));
  DOUBLE az = a * z;
  DOUBLE small = FMA64(az, p, a);
  ULONG near = SIGN_MASK64(magnitude - ULONG(0x3fe0000000000000) /* 0.5 */);
  ULONG result = BITS64(blend(near, small, large)) | sign;
  return FROM_BITS64(SELECT(magnitude > ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), result));
}

FUNCTION double ls_cosh(double x) {
  ULONG magnitude = BITS64(x) & ULONG(0x7fffffffffffffff);
  DOUBLE a = FROM_BITS64(SELECT(magnitude > ULONG(0x4087500000000000) /* 746 */, ULONG(0x4087500000000000), magnitude));
  DOUBLE high;
  DOUBLE low;
  DOUBLE inverse;
  DOUBLE inverse_low;
  LONG n;
  exp_both(a, high, low, inverse, inverse_low, n);
  DOUBLE s;
  DOUBLE s_low;
  two_sum(high, inverse, s, s_low);
  DOUBLE sum = s + (s_low + (low + inverse_low));
  ULONG result = BITS64(scale_by_power(sum, n - LONG(1)));
  return FROM_BITS64(SELECT(magnitude > ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), result));
}

/// C99's special values: 1 for b = 0 and for a = 1 whatever the other is, NaN for negative a and fractional b.
FUNCTION double ls_pow(double a, double b) {
  ULONG abs_a = BITS64(a) & ULONG(0x7fffffffffffffff);
  ULONG abs_b = BITS64(b) & ULONG(0x7fffffffffffffff);
  ULONG sign_b = BITS64(b) & ULONG(0x8000000000000000);
  DOUBLE h;
  DOUBLE l;
  log_parts(FROM_BITS64(abs_a), 0.0, h, l);
  // b log(a). b is cut to 2^70: log(a) is 0 or at least 2^-53.
  DOUBLE limited =
      FROM_BITS64(SELECT(abs_b > ULONG(0x4450000000000000) /* 2^70 */, ULONG(0x4450000000000000), abs_b) | sign_b);
  DOUBLE p;
  DOUBLE p_low;
  two_product(limited, h, p, p_low);
  p_low = FMA64(limited, l, p_low);
  ULONG far = SIGN_MASK64(ULONG(0x408f400000000000) /* 1000 */ - (BITS64(p) & ULONG(0x7fffffffffffffff)));
  DOUBLE cut = FROM_BITS64((BITS64(p) & ULONG(0x8000000000000000)) | ULONG(0x408f400000000000));
  DOUBLE high;
  DOUBLE low;
  LONG n;
  exp_parts(blend(far, cut, p), FROM_BITS64(BITS64(p_low) & ~far), high, low, n);
  ULONG result = BITS64(scale_by_power(high, n));
  // a = 0 and infinite a: as if the logarithm were infinite
  ULONG to_zero = SIGN_MASK64(sign_b);  // an infinite a to the power b
  result = SELECT(abs_a == ULONG(0x7ff0000000000000), ULONG(0x7ff0000000000000) & ~to_zero, result);
  result = SELECT(abs_a == ULONG(0), ULONG(0x7ff0000000000000) & to_zero, result);
  DOUBLE half_b = 0.5 * b;
  ULONG whole = SELECT(float_round(b) == b, ULONG(0x8000000000000000), ULONG(0));
  ULONG even = SELECT(float_round(half_b) == half_b, ULONG(0x8000000000000000), ULONG(0));
  ULONG negative = BITS64(a) & ULONG(0x8000000000000000);
  result = result | (negative & whole & ~even);
  ULONG finite = (abs_a - ULONG(0x7ff0000000000000)) & (ULONG(0) - abs_a) & ULONG(0x8000000000000000);  // and not 0
  result = SELECT((finite & negative & ~whole) != ULONG(0), ULONG(0x7ff8000000000000), result);
  result = SELECT(abs_a > ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), result);
  result = SELECT(abs_b > ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), result);
  result = SELECT(abs_b == ULONG(0), ULONG(0x3ff0000000000000), result);
  result = SELECT(BITS64(a) == ULONG(0x3ff0000000000000), ULONG(0x3ff0000000000000), result);
  return FROM_BITS64(result);
}

/// 2^-k and 2^k with k the exponent of the larger of two magnitudes, cut so that both are normal.
FUNCTION void common_scale(ULONG larger, OUT(DOUBLE, down), OUT(DOUBLE, up)) {
  ULONG exponent = larger >> 52;
  exponent = SELECT(exponent < ULONG(1), ULONG(1), exponent);
  exponent = SELECT(exponent > ULONG(2045), ULONG(2045), exponent);
  down = FROM_BITS64((ULONG(2046) - exponent) << 52);
  up = FROM_BITS64(exponent << 52);
}

FUNCTION double ls_hypot(double a, double b) {
  ULONG abs_a = BITS64(a) & ULONG(0x7fffffffffffffff);
  ULONG abs_b = BITS64(b) & ULONG(0x7fffffffffffffff);
  ULONG larger = SELECT(abs_a < abs_b, abs_b, abs_a);
  ULONG smaller = SELECT(abs_a < abs_b, abs_a, abs_b);
  DOUBLE down;
  DOUBLE up;
  common_scale(larger, down, up);
  DOUBLE x2;
  DOUBLE x2_low;
  DOUBLE y2;
  DOUBLE y2_low;
  DOUBLE x = FROM_BITS64(larger) * down;
  DOUBLE y = FROM_BITS64(smaller) * down;
  two_product(x, x, x2, x2_low);
  two_product(y, y, y2, y2_low);
  DOUBLE s;
  DOUBLE s_low;
  fast_two_sum(x2, y2, s, s_low);
  DOUBLE r;
  DOUBLE r_low;
  sqrt_parts(s, s_low + (x2_low + y2_low), r, r_low);
  DOUBLE root = r + r_low;
  ULONG result = BITS64(root * up);
  result = SELECT(larger > ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), result);
  result = SELECT(abs_a == ULONG(0x7ff0000000000000), ULONG(0x7ff0000000000000), result);
  result = SELECT(abs_b == ULONG(0x7ff0000000000000), ULONG(0x7ff0000000000000), result);
  return FROM_BITS64(result);
}
