// f64: tan, and the inverse trigonometric functions by way of the angle of a point. In the kernel subset: see
// prelude.h. tools/fit_f64.py prints the coefficients.

FUNCTION double ls_tan(double x) {
  ULONG magnitude = BITS64(x) & ULONG(0x7fffffffffffffff);
  ULONG sign = BITS64(x) & ULONG(0x8000000000000000);
  DOUBLE y;
  DOUBLE y_low;
  ULONG quadrant;
  reduce(magnitude, y, y_low, quadrant);
  DOUBLE s;
  DOUBLE s_low;
  DOUBLE c;
  DOUBLE c_low;
  sin_parts(y, y_low, s, s_low);
  cos_parts(y, y_low, c, c_low);
  ULONG odd = ULONG(0) - (quadrant & ULONG(1));
  DOUBLE q;
  DOUBLE q_low;
  quotient_parts(blend(odd, -c, s), blend(odd, -c_low, s_low), blend(odd, s, c), blend(odd, s_low, c_low), q, q_low);
  DOUBLE sum = q + q_low;
  ULONG tiny = SIGN_MASK64(magnitude - ULONG(0x3e40000000000000) /* 2^-27 */);
  ULONG result = BITS64(blend(tiny, FROM_BITS64(magnitude), sum)) ^ sign;
  return FROM_BITS64(SELECT(magnitude >= ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), result));
}

/// The angle of the point (b + b_low, a + a_low) in the first quadrant, where a and b are neither both 0 nor far
/// from 1.
FUNCTION void angle_parts(double a, double a_low, double b, double b_low, OUT(DOUBLE, high), OUT(DOUBLE, low)) {
  // from 0 by a / b, from pi / 4 by (a - b) / (a + b), or from pi / 2 by -b / a: whichever is within tan(pi / 8)
  DOUBLE bound = FROM_BITS64(ULONG(0x3fda827999fcef32) /* 0.414213562 */);
  DOUBLE bound_a = bound * a;
  DOUBLE bound_b = bound * b;
  ULONG middle = ULONG(0) - SELECT(a > bound_b, ULONG(1), ULONG(0));
  ULONG steep = ULONG(0) - SELECT(b < bound_a, ULONG(1), ULONG(0));
  DOUBLE d;
  DOUBLE d_low;
  two_sum(a, -b, d, d_low);
  DOUBLE s;
  DOUBLE s_low;
  two_sum(a, b, s, s_low);
  DOUBLE n = blend(steep, -b, blend(middle, d, a));
  DOUBLE n_low = blend(steep, -b_low, blend(middle, d_low + (a_low - b_low), a_low));
  DOUBLE m = blend(steep, a, blend(middle, s, b));
  DOUBLE m_low = blend(steep, a_low, blend(middle, s_low + (a_low + b_low), b_low));
  DOUBLE t;
  DOUBLE t_low;
  quotient_parts(n, n_low, m, m_low, t, t_low);
  DOUBLE z = t * t;
  DOUBLE p = FROM_BITS64(ULONG(0xbf8c7a6bc6dde7f9) /* -0.0139053745 */);
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3f9f5ba271a2a8e8) /* 0.0306229956 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0xbfa5030c28013685) /* -0.0410388755 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3fa829a09d7f37d9) /* 0.0471925919 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0xbfaaebcad6415c5d) /* -0.0525802027 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3fae1d8ddf459f4d) /* 0.0588192306 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0xbfb1110ce80547d7) /* -0.0666664187 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3fb3b13aea53b18f) /* 0.0769230673 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0xbfb745d173542f7a) /* -0.0909090907 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3fbc71c71c6dd2d8) /* 0.111111111 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0xbfc24924924920a3) /* -0.142857143 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3fc9999999999997) /* 0.2 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0xbfd5555555555555) /* -0.333333333 */));
  DOUBLE tz = t * z;
  DOUBLE v = FMA64(tz, p, t_low);
  DOUBLE from = blend(steep, FROM_BITS64(ULONG(0x3ff921fb54442d18) /* 1.57079633 */),
                      blend(middle, FROM_BITS64(ULONG(0x3fe921fb54442d18) /* 0.785398163 */), 0.0));
  DOUBLE from_low = blend(steep, FROM_BITS64(ULONG(0x3c91a62633145c07) /* 6.123234e-17 */),
                          blend(middle, FROM_BITS64(ULONG(0x3c81a62633145c07) /* 3.061617e-17 */), 0.0));
  DOUBLE h;
  DOUBLE h_low;
  fast_two_sum(from, t, h, h_low);
  fast_two_sum(h, h_low + (from_low + v), high, low);
}

FUNCTION double ls_atan(double x) {
  ULONG magnitude = BITS64(x) & ULONG(0x7fffffffffffffff);
  ULONG large = ULONG(0x4350000000000000) /* 2^54 */;
  DOUBLE a = FROM_BITS64(SELECT(magnitude > large, large, magnitude));
  DOUBLE high;
  DOUBLE low;
  angle_parts(a, 0.0, 1.0, 0.0, high, low);
  ULONG tiny = SIGN_MASK64(magnitude - ULONG(0x3e40000000000000) /* 2^-27 */);
  ULONG result = BITS64(blend(tiny, a, high)) | (BITS64(x) & ULONG(0x8000000000000000));
  return FROM_BITS64(SELECT(magnitude > ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), result));
}

/// sqrt(1 - a^2) for 0 <= a <= 1.
FUNCTION void other_leg(double a, OUT(DOUBLE, r), OUT(DOUBLE, r_low)) {
  DOUBLE p;
  DOUBLE p_low;
  two_product(a, a, p, p_low);
  DOUBLE s;
  DOUBLE s_low;
  fast_two_sum(1.0, -p, s, s_low);
  DOUBLE m;
  DOUBLE m_low;
  two_sum(s, s_low - p_low, m, m_low);
  sqrt_parts(m, m_low, r, r_low);
}

FUNCTION double ls_asin(double x) {
  ULONG magnitude = BITS64(x) & ULONG(0x7fffffffffffffff);
  ULONG one = ULONG(0x3ff0000000000000);
  DOUBLE a = FROM_BITS64(SELECT(magnitude > one, one, magnitude));
  DOUBLE r;
  DOUBLE r_low;
  other_leg(a, r, r_low);
  DOUBLE high;
  DOUBLE low;
  angle_parts(a, 0.0, r, r_low, high, low);
  ULONG tiny = SIGN_MASK64(magnitude - ULONG(0x3e40000000000000) /* 2^-27 */);
  ULONG result = BITS64(blend(tiny, a, high)) | (BITS64(x) & ULONG(0x8000000000000000));
  return FROM_BITS64(SELECT(magnitude > one, ULONG(0x7ff8000000000000), result));
}

/// pi - (high + low) where the mask is all ones, else high.
FUNCTION double reflected_angle(ULONG mask, double high, double low) {
  DOUBLE s;
  DOUBLE s_low;
  fast_two_sum(FROM_BITS64(ULONG(0x400921fb54442d18) /* 3.14159265 */), -high, s, s_low);
  DOUBLE reflected = s + (s_low + (FROM_BITS64(ULONG(0x3ca1a62633145c07) /* 1.2246468e-16 */) - low));
  return blend(mask, reflected, high);
}

FUNCTION double ls_acos(double x) {
  ULONG magnitude = BITS64(x) & ULONG(0x7fffffffffffffff);
  ULONG one = ULONG(0x3ff0000000000000);
  DOUBLE a = FROM_BITS64(SELECT(magnitude > one, one, magnitude));
  DOUBLE r;
  DOUBLE r_low;
  other_leg(a, r, r_low);
  DOUBLE high;
  DOUBLE low;
  angle_parts(r, r_low, a, 0.0, high, low);
  DOUBLE result = reflected_angle(SIGN_MASK64(BITS64(x)), high, low);
  return FROM_BITS64(SELECT(magnitude > one, ULONG(0x7ff8000000000000), BITS64(result)));
}

/// C99's special values: those of the angle of (b, a), also for zeros and infinities with their signs.
FUNCTION double ls_atan2(double a, double b) {
  ULONG abs_a = BITS64(a) & ULONG(0x7fffffffffffffff);
  ULONG abs_b = BITS64(b) & ULONG(0x7fffffffffffffff);
  ULONG infinity = ULONG(0x7ff0000000000000);
  DOUBLE down;
  DOUBLE up;
  common_scale(SELECT(abs_a < abs_b, abs_b, abs_a), down, up);
  DOUBLE y = FROM_BITS64(abs_a) * down;
  DOUBLE x = FROM_BITS64(abs_b) * down;
  // two infinities are like two ones, an infinity is like 1 beside 0, and (0, 0) is like (1, 0)
  ULONG infinite_a = ULONG(0) - SELECT(abs_a == infinity, ULONG(1), ULONG(0));
  ULONG infinite_b = ULONG(0) - SELECT(abs_b == infinity, ULONG(1), ULONG(0));
  ULONG origin = ULONG(0) - SELECT((abs_a | abs_b) == ULONG(0), ULONG(1), ULONG(0));
  y = blend(infinite_a, 1.0, FROM_BITS64(BITS64(y) & ~infinite_b));
  x = blend(infinite_b | origin, 1.0, FROM_BITS64(BITS64(x) & ~infinite_a));
  DOUBLE high;
  DOUBLE low;
  angle_parts(y, 0.0, x, 0.0, high, low);
  ULONG negative = SIGN_MASK64(BITS64(b));
  DOUBLE angle = reflected_angle(negative, high, low);
  // where the angle is the quotient, that may be subnormal
  DOUBLE quotient = FROM_BITS64(abs_a) / FROM_BITS64(abs_b);
  ULONG tiny = SIGN_MASK64(BITS64(quotient) - ULONG(0x3e40000000000000) /* 2^-27 */) & ~negative;
  ULONG result = BITS64(blend(tiny & ~(infinite_a | infinite_b | origin), quotient, angle));
  result = result | (BITS64(a) & ULONG(0x8000000000000000));
  result = SELECT(abs_a > infinity, ULONG(0x7ff8000000000000), result);
  return FROM_BITS64(SELECT(abs_b > infinity, ULONG(0x7ff8000000000000), result));
}
