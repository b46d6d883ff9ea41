// The f64 functions: the same names, overloaded, and the same discipline as math.h, but plain IEEE: subnormals are kept
// and division is used where it is shorter, since it is correctly rounded wherever f64 is offered. At most 2 ulp. In
// the kernel subset: see prelude.h. tools/fit_f64.py prints the coefficients.

/// A result as it is stored: the one NaN.
FUNCTION double canonical_f64(double x) {
  ULONG nan =
      SIGN_MASK64(ULONG(0x7ff0000000000000) - (BITS64(x) & ULONG(0x7fffffffffffffff)));  // as in canonical_f32
  return FROM_BITS64((BITS64(x) & ~nan) | (ULONG(0x7ff8000000000000) & nan));
}
FUNCTION double canonical(double x) {
  return canonical_f64(x);
}

/// Ordering key: NaN on top, both zeros equal.
FUNCTION LONG max_key(double x) {
  ULONG magnitude = BITS64(x) & ULONG(0x7fffffffffffffff);
  LONG key = SELECT(BITS64(x) > ULONG(0x7fffffffffffffff), LONG(~magnitude), LONG(magnitude));
  key = SELECT(magnitude == ULONG(0), LONG(0), key);
  return SELECT(magnitude > ULONG(0x7ff0000000000000), LONG(ULONG(0x7fffffffffffffff)), key);
}
/// The same order with NaN at the bottom, so that NaN wins a minimum.
FUNCTION LONG min_key(double x) {
  ULONG magnitude = BITS64(x) & ULONG(0x7fffffffffffffff);
  return SELECT(magnitude > ULONG(0x7ff0000000000000), LONG(ULONG(0x8000000000000000)), max_key(x));
}

FUNCTION double float_abs(double x) {
  return FROM_BITS64(BITS64(x) & ULONG(0x7fffffffffffffff));
}
FUNCTION double float_sqrt(double x) {
  return SQRT64(x);
}

FUNCTION double round_magnitude(double magnitude) {
  DOUBLE shifted = magnitude + 4503599627370496.0 /* 2^52 */;
  DOUBLE rounded = shifted - 4503599627370496.0;
  return FROM_BITS64(SELECT(BITS64(magnitude) < ULONG(0x4330000000000000), BITS64(rounded), BITS64(magnitude)));
}
FUNCTION double float_round(double x) {
  ULONG sign = BITS64(x) & ULONG(0x8000000000000000);
  return FROM_BITS64(BITS64(round_magnitude(float_abs(x))) | sign);
}
FUNCTION double float_trunc(double x) {
  ULONG sign = BITS64(x) & ULONG(0x8000000000000000);
  DOUBLE magnitude = float_abs(x);
  DOUBLE rounded = round_magnitude(magnitude);
  DOUBLE result = rounded - SELECT(rounded > magnitude, 1.0, 0.0);
  return FROM_BITS64(BITS64(result) | sign);
}
FUNCTION double float_floor(double x) {
  ULONG sign = BITS64(x) & ULONG(0x8000000000000000);
  DOUBLE rounded = float_round(x);
  DOUBLE result = rounded - SELECT(rounded > x, 1.0, 0.0);
  return FROM_BITS64(BITS64(result) | sign);
}
FUNCTION double float_ceil(double x) {
  ULONG sign = BITS64(x) & ULONG(0x8000000000000000);
  DOUBLE rounded = float_round(x);
  DOUBLE result = rounded + SELECT(rounded < x, 1.0, 0.0);
  return FROM_BITS64(BITS64(result) | sign);
}

// --- exponential -----------------------------------------------------------------------------------------------------

/// x * 2^n for |n| <= 2000 in two steps: exact unless the result is subnormal or overflows.
FUNCTION double scale_by_power(double x, LONG n) {
  ULONG half_n = (ULONG(n + LONG(4096)) >> 1) - ULONG(2048);  // rounds down, by unsigned shifts
  DOUBLE first = x * FROM_BITS64((half_n + ULONG(1023)) << 52);
  return first * FROM_BITS64((ULONG(n) - half_n + ULONG(1023)) << 52);
}

/// exp(r + r_low) = high + low for |r| <= log(2) / 2 and |r_low| <= |r| / 2^52; high in [0.70, 1.42].
FUNCTION void exp_near_zero(double r, double r_low, OUT(DOUBLE, high), OUT(DOUBLE, low)) {
  DOUBLE q = FROM_BITS64(ULONG(0x3e21f7315649f2d7) /* 2.09147071e-09 */);
  q = FMA64(q, r, FROM_BITS64(ULONG(0x3e5af4e092e1705b) /* 2.51052452e-08 */));
  q = FMA64(q, r, FROM_BITS64(ULONG(0x3e927e4db5bb725a) /* 2.75572736e-07 */));
  q = FMA64(q, r, FROM_BITS64(ULONG(0x3ec71de02225a2f3) /* 2.75572553e-06 */));
  q = FMA64(q, r, FROM_BITS64(ULONG(0x3efa01a01a6db488) /* 2.48015873e-05 */));
  q = FMA64(q, r, FROM_BITS64(ULONG(0x3f2a01a01abeccc3) /* 0.000198412699 */));
  q = FMA64(q, r, FROM_BITS64(ULONG(0x3f56c16c16c162cf) /* 0.00138888889 */));
  q = FMA64(q, r, FROM_BITS64(ULONG(0x3f811111111100d3) /* 0.00833333333 */));
  q = FMA64(q, r, FROM_BITS64(ULONG(0x3fa5555555555556) /* 0.0416666667 */));
  q = FMA64(q, r, FROM_BITS64(ULONG(0x3fc5555555555557) /* 0.166666667 */));
  q = FMA64(q, r, FROM_BITS64(ULONG(0x3fe0000000000000) /* 0.5 */));
  DOUBLE r2 = r * r;
  DOUBLE w = FMA64(r2, q, r_low);
  DOUBLE s = r + w;
  DOUBLE s1 = s - r;
  DOUBLE s_low = w - s1;
  high = 1.0 + s;
  DOUBLE h1 = high - 1.0;
  DOUBLE h2 = s - h1;
  low = h2 + s_low;
}

/// exp(x + x_low) = (high + low) * 2^n for |x| < 1000 and |x_low| <= |x| / 2^52; high in [0.70, 1.42].
FUNCTION void exp_parts(double x, double x_low, OUT(DOUBLE, high), OUT(DOUBLE, low), OUT(LONG, n)) {
  DOUBLE t = FMA64(x, FROM_BITS64(ULONG(0x3ff71547652b82fe) /* 1.44269504 */), 6755399441055744.0 /* 1.5 * 2^52 */);
  DOUBLE k = t - 6755399441055744.0;
  n = LONG(BITS64(t) - ULONG(0x4338000000000000));
  DOUBLE r1 = FMA64(k, FROM_BITS64(ULONG(0xbfe62e42fee00000) /* -0.69314718 */), x);
  DOUBLE c = FMA64(k, FROM_BITS64(ULONG(0xbdea39ef35793c76) /* -1.90821493e-10 */), x_low);
  // Exact sum of r1 and c; either may be the larger one.
  DOUBLE r = r1 + c;
  DOUBLE b = r - r1;
  DOUBLE e1 = r - b;
  DOUBLE e2 = r1 - e1;
  DOUBLE e3 = c - b;
  DOUBLE r_low = e2 + e3;
  exp_near_zero(r, r_low, high, low);
}

FUNCTION double ls_exp(double x) {
  ULONG bits = BITS64(x);
  ULONG magnitude = bits & ULONG(0x7fffffffffffffff);
  DOUBLE limited = FROM_BITS64(SELECT(magnitude > ULONG(0x4087500000000000) /* 746 */,
                                      (bits & ULONG(0x8000000000000000)) | ULONG(0x4087500000000000), bits));
  DOUBLE high;
  DOUBLE low;
  LONG n;
  exp_parts(limited, 0.0, high, low, n);
  ULONG result = BITS64(scale_by_power(high, n));
  result = SELECT(magnitude > ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), result);
  return FROM_BITS64(result);
}

// --- logarithm -------------------------------------------------------------------------------------------------------

FUNCTION double ls_log(double x) {
  ULONG bits = BITS64(x);
  DOUBLE enlarged = x * 18014398509481984.0 /* 2^54 */;
  ULONG subnormal = 0 - ULONG(bits < ULONG(0x0010000000000000));
  ULONG normal = (BITS64(enlarged) & subnormal) | (bits & ~subnormal);
  // x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); e + 1024 by an unsigned shift
  ULONG d = normal - ULONG(0x3fe6a09e667f3bcd) + ULONG(0x4000000000000000);
  DOUBLE e = FROM_BITS64((d >> 52) | ULONG(0x4330000000000000)) - 4503599627371520.0 /* 2^52 + 1024 */;
  e = e - FROM_BITS64(subnormal & ULONG(0x404b000000000000) /* 54 */);
  DOUBLE f = FROM_BITS64((d & ULONG(0x000fffffffffffff)) + ULONG(0x3fe6a09e667f3bcd)) - 1.0;
  // log(1 + f) = 2 atanh(s) = 2 s + s^3 p(s^2), arranged so that f itself is not rounded
  DOUBLE s = f / (2.0 + f);
  DOUBLE z = s * s;
  DOUBLE p = FROM_BITS64(ULONG(0x3fc0c1261fd9bdd6) /* 0.130894437 */);
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3fc0fbd2bde02b13) /* 0.132685034 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3fc3b1c42e222bad) /* 0.153862498 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3fc745cf8c4cfebe) /* 0.181817955 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3fcc71c7201f1f41) /* 0.222222224 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3fd2492492476765) /* 0.285714286 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3fd9999999999a3a) /* 0.4 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3fe5555555555555) /* 0.666666667 */));
  DOUBLE half_f2 = 0.5 * f * f;
  DOUBLE r = FMA64(z, p, half_f2);
  DOUBLE tail = FMA64(s, r, e * FROM_BITS64(ULONG(0x3dea39ef35793c76) /* 1.90821493e-10 */));
  DOUBLE rest = (half_f2 - tail) - f;
  DOUBLE value = FMA64(e, FROM_BITS64(ULONG(0x3fe62e42fee00000) /* 0.69314718 */), -rest);
  ULONG result =
      SELECT(bits >= ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), BITS64(value));  // NaN and all negatives
  result = SELECT(bits == ULONG(0x7ff0000000000000), ULONG(0x7ff0000000000000), result);
  result = SELECT((bits << 1) == ULONG(0), ULONG(0xfff0000000000000), result);
  return FROM_BITS64(result);
}

// --- tanh, sigmoid ---------------------------------------------------------------------------------------------------

FUNCTION double ls_tanh(double x) {
  ULONG bits = BITS64(x);
  ULONG magnitude = bits & ULONG(0x7fffffffffffffff);
  DOUBLE a = FROM_BITS64(SELECT(magnitude > ULONG(0x4036000000000000) /* 22 */, ULONG(0x4036000000000000), magnitude));
  // 1 - 2 / (e^2a + 1)
  DOUBLE high;
  DOUBLE low;
  LONG n;
  exp_parts(a + a, 0.0, high, low, n);
  DOUBLE scale = FROM_BITS64(ULONG(n + LONG(1023)) << 52);
  DOUBLE e = high * scale;
  DOUBLE d = e + 1.0;
  DOUBLE d1 = d - e;
  DOUBLE d2 = 1.0 - d1;
  DOUBLE d_low = FMA64(low, scale, d2);
  DOUBLE y = 2.0 / d;
  DOUBLE r = FMA64(-d, y, 2.0);
  r = FMA64(-d_low, y, r);
  DOUBLE y_low = r * (0.5 * y);
  DOUBLE large = (1.0 - y) - y_low;
  // a + a^3 p(a^2)
  DOUBLE z = a * a;
  DOUBLE p = FROM_BITS64(ULONG(0xbef8117b15cbb104) /* -2.29533047e-05 */);
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3f171eb85bee4b4a) /* 8.81958031e-05 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0xbf2efab6555ccc22) /* -0.000236353643 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3f4350ce30757046) /* 0.000589466742 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0xbf57d9e74586c684) /* -0.00145576081 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3f6d6d39b48449bf) /* 0.0035921218 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0xbf8226e34a851d2c) /* -0.0088632352 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3f9664f487fed22a) /* 0.0218694885 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0xbfaba1ba1ba15daa) /* -0.053968254 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3fc11111111110ec) /* 0.133333333 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0xbfd5555555555555) /* -0.333333333 */));
  DOUBLE az = a * z;
  DOUBLE small = FMA64(az, p, a);
  ULONG result = SELECT(magnitude < ULONG(0x3fe0000000000000) /* 0.5 */, BITS64(small), BITS64(large));
  result = result | (bits & ULONG(0x8000000000000000));
  result = SELECT(magnitude > ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), result);
  return FROM_BITS64(result);
}

FUNCTION double ls_sigmoid(double x) {
  ULONG bits = BITS64(x);
  ULONG magnitude = bits & ULONG(0x7fffffffffffffff);
  ULONG negative = SIGN_MASK64(bits);
  DOUBLE a = FROM_BITS64(SELECT(magnitude > ULONG(0x4087500000000000) /* 746 */, ULONG(0x4087500000000000), magnitude));
  // E = e^-|x|; 1 / (1 + E) for positive, E / (1 + E) for negative x
  DOUBLE high;
  DOUBLE low;
  LONG n;
  exp_parts(-a, 0.0, high, low, n);
  LONG m = SELECT(n < LONG(-200), LONG(-200), n);
  DOUBLE scale = FROM_BITS64(ULONG(m + LONG(1023)) << 52);
  DOUBLE e = high * scale;
  DOUBLE d = 1.0 + e;
  DOUBLE d1 = d - 1.0;
  DOUBLE d2 = e - d1;
  DOUBLE d_low = FMA64(low, scale, d2);
  DOUBLE numerator = FROM_BITS64((BITS64(high) & negative) | (ULONG(0x3ff0000000000000) & ~negative));
  DOUBLE numerator_low = FROM_BITS64(BITS64(low) & negative);
  DOUBLE y = 1.0 / d;
  DOUBLE q = numerator * y;
  DOUBLE r = FMA64(-d, q, numerator);
  r = FMA64(-d_low, q, r) + numerator_low;
  q = FMA64(r, y, q);
  ULONG result = BITS64(scale_by_power(q, LONG(ULONG(n) & negative)));
  result = SELECT(magnitude > ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), result);
  return FROM_BITS64(result);
}

// --- erf, gelu -------------------------------------------------------------------------------------------------------

/// Phi(-a) e^(a^2/2) = high + low for 0 <= a <= 39: P(t) / (a + 3) with t = (a - 3) / (a + 3), in two doubles.
FUNCTION void scaled_tail(double a, OUT(DOUBLE, high), OUT(DOUBLE, low)) {
  DOUBLE d = a + 3.0;
  DOUBLE d1 = d - 3.0;
  DOUBLE d_low = a - d1;
  DOUBLE y = 1.0 / d;
  DOUBLE e = FMA64(-d, y, 1.0);
  e = FMA64(-d_low, y, e);
  DOUBLE y_low = y * e;
  DOUBLE u = a - 3.0;
  DOUBLE u1 = u + 3.0;
  DOUBLE u_low = a - u1;
  DOUBLE t0 = u * y;
  DOUBLE r = FMA64(-d, t0, u);
  r = FMA64(-d_low, t0, r) + u_low;
  DOUBLE t = FMA64(r, y, t0);
  DOUBLE t1 = t0 - t;
  DOUBLE t_low = FMA64(r, y, t1);
  DOUBLE q = FROM_BITS64(ULONG(0x3e09aabce7f3bf0b) /* 7.47006415e-10 */);
  q = FMA64(q, t, FROM_BITS64(ULONG(0x3e231d13f56189cb) /* 2.22511424e-09 */));
  q = FMA64(q, t, FROM_BITS64(ULONG(0xbe24457d17fbdc23) /* -2.35990621e-09 */));
  q = FMA64(q, t, FROM_BITS64(ULONG(0xbe51094b1a515f26) /* -1.58662929e-08 */));
  q = FMA64(q, t, FROM_BITS64(ULONG(0xbe48550214426b05) /* -1.13304998e-08 */));
  q = FMA64(q, t, FROM_BITS64(ULONG(0x3e6616ed5be3f0b2) /* 4.11450105e-08 */));
  q = FMA64(q, t, FROM_BITS64(ULONG(0x3e7a2e8aad3e1b7d) /* 9.75348187e-08 */));
  q = FMA64(q, t, FROM_BITS64(ULONG(0x3e5ab5874cbf1985) /* 2.48747838e-08 */));
  q = FMA64(q, t, FROM_BITS64(ULONG(0xbe92ce66ca57563a) /* -2.80235051e-07 */));
  q = FMA64(q, t, FROM_BITS64(ULONG(0xbea37a1dbb96f3dc) /* -5.80460316e-07 */));
  q = FMA64(q, t, FROM_BITS64(ULONG(0x3e5085588ecc35e0) /* 1.53862709e-08 */));
  q = FMA64(q, t, FROM_BITS64(ULONG(0x3ec2e06798a7ead4) /* 2.25026378e-06 */));
  q = FMA64(q, t, FROM_BITS64(ULONG(0x3ece7f76c48ddaf7) /* 3.63563371e-06 */));
  q = FMA64(q, t, FROM_BITS64(ULONG(0xbecd7d780e034ac1) /* -3.51549544e-06 */));
  q = FMA64(q, t, FROM_BITS64(ULONG(0xbef5b143baefb08c) /* -2.06875226e-05 */));
  q = FMA64(q, t, FROM_BITS64(ULONG(0xbeebc7b5c599421d) /* -1.32465922e-05 */));
  q = FMA64(q, t, FROM_BITS64(ULONG(0x3f14a901089cfa8c) /* 7.88123017e-05 */));
  q = FMA64(q, t, FROM_BITS64(ULONG(0x3f243c9f280013bc) /* 0.000154394558 */));
  q = FMA64(q, t, FROM_BITS64(ULONG(0xbf30d09e7f903658) /* -0.000256575294 */));
  q = FMA64(q, t, FROM_BITS64(ULONG(0xbf512285f17b8ce7) /* -0.00104582863 */));
  q = FMA64(q, t, FROM_BITS64(ULONG(0x3f50d608c838a441) /* 0.00102759225 */));
  q = FMA64(q, t, FROM_BITS64(ULONG(0x3f7c8f52c329235d) /* 0.00697262124 */));
  q = FMA64(q, t, FROM_BITS64(ULONG(0xbf856d8e3d7e85ab) /* -0.010462867 */));
  q = FMA64(q, t, FROM_BITS64(ULONG(0xbfa832dbf6992a35) /* -0.0472630251 */));
  q = FMA64(q, t, FROM_BITS64(ULONG(0x3fcd71387c654c80) /* 0.23001772 */));
  DOUBLE c1 = FROM_BITS64(ULONG(0xbfe04c7295a48f33) /* -0.509331982 */);
  DOUBLE p = FMA64(q, t, c1);
  DOUBLE p1 = c1 - p;
  DOUBLE p_low = FMA64(q, t, p1) + FROM_BITS64(ULONG(0x3c8b04c8594822df) /* 4.68699421e-17 */);
  DOUBLE w = p * t;
  DOUBLE w_low = FMA64(p, t, -w);
  w_low = FMA64(p_low, t, w_low) + FROM_BITS64(ULONG(0xbc8609df5ec27ae9) /* -3.82308154e-17 */);
  w_low = FMA64(p, t_low, w_low);
  DOUBLE g = w + FROM_BITS64(ULONG(0x3fe754a751a56f4a) /* 0.72908369 */);
  DOUBLE g1 = g - FROM_BITS64(ULONG(0x3fe754a751a56f4a) /* 0.72908369 */);
  DOUBLE g2 = w - g1;
  DOUBLE g_low = g2 + w_low;
  high = y * g;
  low = FMA64(y, g, -high);
  low = FMA64(y, g_low, low);
  low = FMA64(y_low, g, low);
}

/// erf(a) / a - 1 over z = a^2, a <= 1/2.
FUNCTION double erf_polynomial(double z) {
  DOUBLE q = FROM_BITS64(ULONG(0xbe839fb524e9c1f7) /* -1.46209134e-07 */);
  q = FMA64(q, z, FROM_BITS64(ULONG(0x3ebb776442df3041) /* 1.63712344e-06 */));
  q = FMA64(q, z, FROM_BITS64(ULONG(0xbeef4bb9f7301ded) /* -1.49230034e-05 */));
  q = FMA64(q, z, FROM_BITS64(ULONG(0x3f1f9a2a6635fe79) /* 0.000120552862 */));
  q = FMA64(q, z, FROM_BITS64(ULONG(0xbf4c02db23d41138) /* -0.000854832651 */));
  q = FMA64(q, z, FROM_BITS64(ULONG(0x3f7565bcd0aa6349) /* 0.00522397762 */));
  q = FMA64(q, z, FROM_BITS64(ULONG(0xbf9b82ce3127f739) /* -0.0268661706 */));
  q = FMA64(q, z, FROM_BITS64(ULONG(0x3fbce2f21a042b29) /* 0.112837917 */));
  q = FMA64(q, z, FROM_BITS64(ULONG(0xbfd812746b0379e6) /* -0.376126389 */));
  q = FMA64(q, z, FROM_BITS64(ULONG(0x3fc06eba8214db69) /* 0.128379167 */));
  return q;
}

FUNCTION double ls_erf(double x) {
  ULONG bits = BITS64(x);
  ULONG magnitude = bits & ULONG(0x7fffffffffffffff);
  DOUBLE a = FROM_BITS64(SELECT(magnitude > ULONG(0x4018000000000000) /* 6 */, ULONG(0x4018000000000000), magnitude));
  // 1 - 2 Phi(-sqrt(2) a). The rounding of sqrt(2) a matters little in the scaled tail, which is flat.
  DOUBLE s = a * a;
  DOUBLE s_low = FMA64(a, a, -s);
  DOUBLE high;
  DOUBLE low;
  LONG n;
  exp_parts(-s, -s_low, high, low, n);
  DOUBLE h;
  DOUBLE h_low;
  scaled_tail(a * FROM_BITS64(ULONG(0x3ff6a09e667f3bcd) /* 1.41421356 */), h, h_low);
  DOUBLE twice_scale = FROM_BITS64(ULONG(n + LONG(1024)) << 52);
  DOUBLE f = high * h;
  DOUBLE f_low = FMA64(high, h, -f);
  f_low = FMA64(low, h, f_low);
  f_low = FMA64(high, h_low, f_low);
  DOUBLE upper = FMA64(-f, twice_scale, 1.0);
  DOUBLE rest = FMA64(-f, twice_scale, 1.0 - upper);  // 1 - upper is exact: upper is between 1/2 and 1
  rest = FMA64(-f_low, twice_scale, rest);
  DOUBLE large = upper + rest;
  DOUBLE small = FMA64(a, erf_polynomial(a * a), a);
  ULONG result = SELECT(magnitude < ULONG(0x3fe0000000000000) /* 0.5 */, BITS64(small), BITS64(large));
  result = result | (bits & ULONG(0x8000000000000000));
  result = SELECT(magnitude > ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), result);
  return FROM_BITS64(result);
}

/// x Phi(x) with full relative precision in the negative tail; gelu(-inf) is -0, its limit.
FUNCTION double ls_gelu(double x) {
  ULONG bits = BITS64(x);
  ULONG magnitude = bits & ULONG(0x7fffffffffffffff);
  DOUBLE a = FROM_BITS64(SELECT(magnitude > ULONG(0x4043800000000000) /* 39 */, ULONG(0x4043800000000000), magnitude));
  DOUBLE s = a * a;
  DOUBLE s_low = FMA64(a, a, -s);
  DOUBLE high;
  DOUBLE low;
  LONG n;
  exp_parts(-0.5 * s, -0.5 * s_low, high, low, n);
  DOUBLE h;
  DOUBLE h_low;
  scaled_tail(a, h, h_low);
  DOUBLE f = high * h;
  DOUBLE f_low = FMA64(high, h, -f);
  f_low = FMA64(low, h, f_low);
  f_low = FMA64(high, h_low, f_low);
  DOUBLE af = a * f;
  DOUBLE af_low = FMA64(a, f, -af);
  af_low = FMA64(a, f_low, af_low);
  // a - a Phi(-a) for positive, -a Phi(-a) for negative x
  LONG m = SELECT(n < LONG(-400), LONG(-400), n);
  DOUBLE scale = FROM_BITS64(ULONG(m + LONG(1023)) << 52);
  DOUBLE upper = FMA64(-af, scale, a);
  DOUBLE rest = FMA64(-af, scale, a - upper);  // a - upper is exact: upper is between a / 2 and a
  rest = FMA64(-af_low, scale, rest);
  DOUBLE positive = upper + rest;
  DOUBLE negative = scale_by_power(af + af_low, n);
  ULONG result =
      SELECT(bits > ULONG(0x7fffffffffffffff), BITS64(negative) | ULONG(0x8000000000000000), BITS64(positive));
  DOUBLE half_x = 0.5 * x;
  result = SELECT(magnitude < ULONG(0x3c80000000000000) /* 2^-55 */, BITS64(half_x), result);
  ULONG far = SELECT(bits > ULONG(0x7fffffffffffffff), ULONG(0x8000000000000000), bits);
  result = SELECT(magnitude > ULONG(0x4043800000000000), far, result);
  result = SELECT(magnitude > ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), result);
  return FROM_BITS64(result);
}

// --- reciprocal square root ------------------------------------------------------------------------------------------

FUNCTION double ls_rsqrt(double x) {
  return canonical_f64(1.0 / float_sqrt(x));
}
