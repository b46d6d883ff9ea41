// The f64 logarithms, what is made of them (inverse hyperbolic functions, logaddexp, pow), and the helpers that carry a
// value in two doubles. In the kernel subset: see prelude.h. tools/fit_f64.py prints the coefficients.

// --- sums and products in two doubles --------------------------------------------------------------------------------

/// s + e = a + b exactly, s the rounded sum, for |a| >= |b| or a = 0.
FUNCTION void fast_two_sum(double a, double b, OUT(DOUBLE, s), OUT(DOUBLE, e)) {
  s = a + b;
  DOUBLE rounded = s - a;
  e = b - rounded;
}
/// The same for any two.
FUNCTION void two_sum(double a, double b, OUT(DOUBLE, s), OUT(DOUBLE, e)) {
  s = a + b;
  DOUBLE from_b = s - a;
  DOUBLE from_a = s - from_b;
  DOUBLE rest_b = b - from_b;
  DOUBLE rest_a = a - from_a;
  e = rest_a + rest_b;
}
/// p + e = a b exactly, p the rounded product.
FUNCTION void two_product(double a, double b, OUT(DOUBLE, p), OUT(DOUBLE, e)) {
  p = a * b;
  e = FMA64(a, b, -p);
}
/// (a + a_low) / (b + b_low); (0, 0) for a zero divided by zero.
FUNCTION void quotient_parts(double a, double a_low, double b, double b_low, OUT(DOUBLE, q), OUT(DOUBLE, q_low)) {
  DOUBLE divisor = SELECT(b == 0.0, 1.0, b);
  DOUBLE first = a / divisor;
  DOUBLE r = FMA64(-first, divisor, a) + a_low;
  r = FMA64(-first, b_low, r);
  q = first;
  q_low = r / divisor;
}
/// sqrt(a + a_low).
FUNCTION void sqrt_parts(double a, double a_low, OUT(DOUBLE, r), OUT(DOUBLE, r_low)) {
  DOUBLE first = SQRT64(a);
  DOUBLE rest = FMA64(-first, first, a) + a_low;
  r = first;
  r_low = 0.5 * rest / SELECT(first == 0.0, 1.0, first);
}
/// x where the mask is all ones, y where it is zero.
FUNCTION double blend(ULONG mask, double x, double y) {
  return FROM_BITS64((BITS64(x) & mask) | (BITS64(y) & ~mask));
}

// --- logarithms ------------------------------------------------------------------------------------------------------

/// log(1 + f + f_low) to 2^-64 for 1 + f in [0.70, 1.42] and |f_low| <= |f| / 2^53.
FUNCTION void log_near_one(double f, double f_low, OUT(DOUBLE, high), OUT(DOUBLE, low)) {
  // 2 atanh(s) = 2 s (1 + z / 3 + z^2 q(z)) with s = f / (2 + f), z = s^2
  DOUBLE d = 2.0 + f;
  DOUBLE d1 = d - 2.0;
  DOUBLE d_low = (f - d1) + f_low;
  DOUBLE s;
  DOUBLE s_low;
  quotient_parts(f, f_low, d, d_low, s, s_low);
  DOUBLE z = s * s;
  DOUBLE z_low = FMA64(s, s, -z);
  z_low = FMA64(s + s, s_low, z_low);
  DOUBLE q = FROM_BITS64(ULONG(0x3fab8eeb3772b067) /* 0.053824759 */);
  q = FMA64(q, z, FROM_BITS64(ULONG(0x3faac479c6a9b1d8) /* 0.0522802405 */));
  q = FMA64(q, z, FROM_BITS64(ULONG(0x3fae1f81beeb690f) /* 0.058834128 */));
  q = FMA64(q, z, FROM_BITS64(ULONG(0x3fb1110df49ea077) /* 0.0666664812 */));
  q = FMA64(q, z, FROM_BITS64(ULONG(0x3fb3b13b1bdb9348) /* 0.0769230788 */));
  q = FMA64(q, z, FROM_BITS64(ULONG(0x3fb745d174511206) /* 0.0909090909 */));
  q = FMA64(q, z, FROM_BITS64(ULONG(0x3fbc71c71c71cff7) /* 0.111111111 */));
  q = FMA64(q, z, FROM_BITS64(ULONG(0x3fc2492492492491) /* 0.142857143 */));
  q = FMA64(q, z, FROM_BITS64(ULONG(0x3fc999999999999a) /* 0.2 */));
  DOUBLE third = FROM_BITS64(ULONG(0x3fd5555555555555) /* 0.333333333 */);
  DOUBLE t = FMA64(q, z, third);
  DOUBLE t1 = third - t;
  DOUBLE t_low = FMA64(q, z, t1) + FROM_BITS64(ULONG(0x3c75555555555555) /* 1.85037171e-17 */);
  DOUBLE w = z * t;
  DOUBLE w_low = FMA64(z, t, -w);
  w_low = FMA64(z, t_low, w_low);
  w_low = FMA64(z_low, t, w_low);
  DOUBLE v = s * w;
  DOUBLE v_low = FMA64(s, w, -v);
  v_low = FMA64(s, w_low, v_low);
  v_low = FMA64(s_low, w, v_low) + s_low;
  DOUBLE h = s + v;
  DOUBLE h1 = s - h;
  DOUBLE l = (h1 + v) + v_low;
  fast_two_sum(h + h, l + l, high, low);
}

/// log(x + x_low) = e log(2) + log(1 + f + f_low) with 1 + f in [sqrt(1/2), sqrt(2)], for positive finite x, subnormal
/// ones too, and |x_low| <= x / 2^53.
FUNCTION void split_log(double x, double x_low, OUT(DOUBLE, e), OUT(DOUBLE, f), OUT(DOUBLE, f_low)) {
  ULONG bits = BITS64(x);
  DOUBLE enlarged = x * 18014398509481984.0 /* 2^54 */;
  ULONG subnormal = SIGN_MASK64(bits - ULONG(0x0010000000000000));
  ULONG normal = (BITS64(enlarged) & subnormal) | (bits & ~subnormal);
  ULONG d = normal - ULONG(0x3fe6a09e667f3bcd) + ULONG(0x4000000000000000);  // e + 1024 by an unsigned shift
  DOUBLE biased = FROM_BITS64((d >> 52) | ULONG(0x4330000000000000)) - 4503599627371520.0 /* 2^52 + 1024 */;
  e = biased - FROM_BITS64(subnormal & ULONG(0x404b000000000000) /* 54 */);
  DOUBLE m = FROM_BITS64((d & ULONG(0x000fffffffffffff)) + ULONG(0x3fe6a09e667f3bcd)) - 1.0;
  // x_low 2^-e; x_low is 0 where this factor does not fit
  ULONG exponent = SELECT((d >> 52) > ULONG(2000), ULONG(2000), d >> 52);
  DOUBLE m_low = x_low * FROM_BITS64((ULONG(2047) - exponent) << 52);
  fast_two_sum(m, m_low, f, f_low);
}

/// log(x + x_low) to 2^-63 for positive finite x and |x_low| <= x / 2^53.
FUNCTION void log_parts(double x, double x_low, OUT(DOUBLE, high), OUT(DOUBLE, low)) {
  DOUBLE e;
  DOUBLE f;
  DOUBLE f_low;
  split_log(x, x_low, e, f, f_low);
  DOUBLE h;
  DOUBLE l;
  log_near_one(f, f_low, h, l);
  DOUBLE a = e * FROM_BITS64(ULONG(0x3fe62e42fee00000) /* 0.69314718 */);  // exact
  DOUBLE s;
  DOUBLE s_low;
  fast_two_sum(a, h, s, s_low);
  DOUBLE rest = FMA64(e, FROM_BITS64(ULONG(0x3dea39ef35793c76) /* 1.90821493e-10 */), l) + s_low;
  fast_two_sum(s, rest, high, low);
}

/// The special values of a logarithm of x.
FUNCTION double log_result(double x, double result) {
  ULONG bits = BITS64(x);
  ULONG word = SELECT(bits >= ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), BITS64(result));
  word = SELECT(bits == ULONG(0x7ff0000000000000), bits, word);
  word = SELECT((bits << 1) == ULONG(0), ULONG(0xfff0000000000000), word);
  return FROM_BITS64(word);
}

FUNCTION double ls_log2(double x) {
  DOUBLE e;
  DOUBLE f;
  DOUBLE f_low;
  split_log(x, 0.0, e, f, f_low);
  DOUBLE h;
  DOUBLE l;
  log_near_one(f, f_low, h, l);
  DOUBLE factor = FROM_BITS64(ULONG(0x3ff71547652b82fe) /* 1.44269504 */);
  DOUBLE p;
  DOUBLE p_low;
  two_product(h, factor, p, p_low);
  p_low = FMA64(h, FROM_BITS64(ULONG(0x3c7777d0ffda0d24) /* 2.03552737e-17 */), p_low);
  p_low = FMA64(l, factor, p_low);
  DOUBLE s;
  DOUBLE s_low;
  fast_two_sum(e, p, s, s_low);
  DOUBLE result = s + (s_low + p_low);
  return log_result(x, result);
}

FUNCTION double ls_log10(double x) {
  DOUBLE h;
  DOUBLE l;
  log_parts(x, 0.0, h, l);
  DOUBLE factor = FROM_BITS64(ULONG(0x3fdbcb7b1526e50e) /* 0.434294482 */);
  DOUBLE p;
  DOUBLE p_low;
  two_product(h, factor, p, p_low);
  p_low = FMA64(h, FROM_BITS64(ULONG(0x3c695355baaafad3) /* 1.09831965e-17 */), p_low);
  p_low = FMA64(l, factor, p_low);
  DOUBLE result = p + p_low;
  return log_result(x, result);
}

FUNCTION double ls_log1p(double x) {
  DOUBLE s;
  DOUBLE s_low;
  two_sum(1.0, x, s, s_low);
  DOUBLE h;
  DOUBLE l;
  log_parts(s, s_low, h, l);
  ULONG magnitude = BITS64(x) & ULONG(0x7fffffffffffffff);
  ULONG tiny = SIGN_MASK64(magnitude - ULONG(0x3c90000000000000) /* 2^-54 */);
  return blend(tiny, x, log_result(s, h));
}

// --- inverse hyperbolic functions ------------------------------------------------------------------------------------

FUNCTION double ls_asinh(double x) {
  ULONG magnitude = BITS64(x) & ULONG(0x7fffffffffffffff);
  ULONG sign = BITS64(x) & ULONG(0x8000000000000000);
  DOUBLE whole = FROM_BITS64(magnitude);
  ULONG large = SIGN_MASK64(ULONG(0x41b0000000000000) /* 2^28 */ - magnitude);
  DOUBLE a = blend(large, 1.0, whole);
  // log(1 + a + a^2 / (1 + sqrt(1 + a^2))), for large a log(a) + log(2)
  DOUBLE a2;
  DOUBLE a2_low;
  two_product(a, a, a2, a2_low);
  DOUBLE t;
  DOUBLE t_low;
  two_sum(1.0, a2, t, t_low);
  DOUBLE r;
  DOUBLE r_low;
  sqrt_parts(t, t_low + a2_low, r, r_low);
  DOUBLE d;
  DOUBLE d_low;
  fast_two_sum(r, 1.0, d, d_low);
  DOUBLE g;
  DOUBLE g_low;
  quotient_parts(a2, a2_low, d, d_low + r_low, g, g_low);
  DOUBLE f;
  DOUBLE f_low;
  fast_two_sum(a, g, f, f_low);
  DOUBLE u;
  DOUBLE u_low;
  two_sum(1.0, f, u, u_low);
  u_low = u_low + (f_low + g_low);
  DOUBLE h;
  DOUBLE l;
  log_parts(blend(large, whole, u), FROM_BITS64(BITS64(u_low) & ~large), h, l);
  DOUBLE result = h;
  DOUBLE sum = h + (l + FROM_BITS64(ULONG(0x3fe62e42fefa39ef) /* 0.693147181 */));
  result = blend(large, sum, result);
  ULONG tiny = SIGN_MASK64(magnitude - ULONG(0x3e40000000000000) /* 2^-27 */);
  result = blend(tiny, whole, result);
  ULONG word = SELECT(magnitude == ULONG(0x7ff0000000000000), magnitude, BITS64(result)) | sign;
  return FROM_BITS64(SELECT(magnitude > ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), word));
}

FUNCTION double ls_acosh(double x) {
  ULONG bits = BITS64(x);
  ULONG large = SIGN_MASK64(ULONG(0x41b0000000000000) /* 2^28 */ - (bits & ULONG(0x7fffffffffffffff)));
  DOUBLE a = blend(large, 1.0, SELECT(x < 1.0, 1.0, x));
  // log(1 + t + sqrt(t (x + 1))) with t = x - 1, for large x log(x) + log(2)
  DOUBLE t = a - 1.0;
  DOUBLE s;
  DOUBLE s_low;
  fast_two_sum(a, 1.0, s, s_low);
  DOUBLE m;
  DOUBLE m_low;
  two_product(t, s, m, m_low);
  m_low = FMA64(t, s_low, m_low);
  DOUBLE r;
  DOUBLE r_low;
  sqrt_parts(m, m_low, r, r_low);
  DOUBLE f;
  DOUBLE f_low;
  fast_two_sum(r, t, f, f_low);
  DOUBLE u;
  DOUBLE u_low;
  two_sum(1.0, f, u, u_low);
  u_low = u_low + (f_low + r_low);
  DOUBLE h;
  DOUBLE l;
  log_parts(blend(large, x, u), FROM_BITS64(BITS64(u_low) & ~large), h, l);
  DOUBLE sum = h + (l + FROM_BITS64(ULONG(0x3fe62e42fefa39ef) /* 0.693147181 */));
  ULONG word = BITS64(blend(large, sum, h));
  word = SELECT(bits == ULONG(0x7ff0000000000000), bits, word);
  word = SELECT(bits > ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), word);
  return FROM_BITS64(SELECT(x < 1.0, ULONG(0x7ff8000000000000), word));
}

FUNCTION double ls_atanh(double x) {
  ULONG magnitude = BITS64(x) & ULONG(0x7fffffffffffffff);
  ULONG sign = BITS64(x) & ULONG(0x8000000000000000);
  ULONG outside = SIGN_MASK64(ULONG(0x3fefffffffffffff) - magnitude);
  DOUBLE a = FROM_BITS64(magnitude & ~outside);
  // log(1 + 2 a / (1 - a)) / 2
  DOUBLE d;
  DOUBLE d_low;
  fast_two_sum(1.0, -a, d, d_low);
  DOUBLE f;
  DOUBLE f_low;
  quotient_parts(a + a, 0.0, d, d_low, f, f_low);
  DOUBLE u;
  DOUBLE u_low;
  two_sum(1.0, f, u, u_low);
  DOUBLE h;
  DOUBLE l;
  log_parts(u, u_low + f_low, h, l);
  ULONG tiny = SIGN_MASK64(magnitude - ULONG(0x3e40000000000000) /* 2^-27 */);
  ULONG word = BITS64(blend(tiny, a, 0.5 * h));
  word = SELECT(magnitude == ULONG(0x3ff0000000000000), ULONG(0x7ff0000000000000), word) | sign;
  return FROM_BITS64(SELECT(magnitude > ULONG(0x3ff0000000000000), ULONG(0x7ff8000000000000), word));
}

// --- logaddexp -------------------------------------------------------------------------------------------------------

/// log(e^a + e^b), within 2 ulp of the largest of |a|, |b| and the result.
FUNCTION double ls_logaddexp(double a, double b) {
  DOUBLE larger = SELECT(a < b, b, a);
  DOUBLE smaller = SELECT(a < b, a, b);
  // larger + log(1 + e^d) with d = smaller - larger; past -746 nothing is added
  DOUBLE d;
  DOUBLE d_low;
  two_sum(smaller, -larger, d, d_low);
  ULONG magnitude = BITS64(d) & ULONG(0x7fffffffffffffff);
  ULONG far = SIGN_MASK64(ULONG(0x4087500000000000) /* 746 */ - magnitude);
  DOUBLE high;
  DOUBLE low;
  LONG n;
  exp_parts(blend(far, -746.0, d), FROM_BITS64(BITS64(d_low) & ~far), high, low, n);
  LONG m = SELECT(n < LONG(-500), LONG(-500), n);
  DOUBLE scale = FROM_BITS64(ULONG(m + LONG(1023)) << 52);
  DOUBLE u;
  DOUBLE u_low;
  fast_two_sum(1.0, high * scale, u, u_low);
  DOUBLE h;
  DOUBLE l;
  log_parts(u, FMA64(low, scale, u_low), h, l);
  DOUBLE s;
  DOUBLE s_low;
  two_sum(larger, h, s, s_low);
  DOUBLE sum = s + (s_low + l);
  ULONG infinite = SIGN_MASK64(ULONG(0x7fefffffffffffff) - (BITS64(larger) & ULONG(0x7fffffffffffffff)));
  DOUBLE result = blend(far | infinite, larger, sum);
  return FROM_BITS64(SELECT(a + b == a + b, BITS64(result), BITS64(SELECT(a == a, SELECT(b == b, larger, b), a))));
}
