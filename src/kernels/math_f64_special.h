// f64: erfc, erfinv, lgamma, digamma. In the kernel subset: see prelude.h. tools/fit_f64.py prints the coefficients.

/// erfc(a) = (high + low) 2^n for 0 <= a <= 28; e^-(a^2) is (e_high + ...) 2^(n - 1).
FUNCTION void erfc_parts(double a, OUT(DOUBLE, high), OUT(DOUBLE, low), OUT(DOUBLE, e_high), OUT(LONG, n)) {
  // 2 Phi(-sqrt(2) a)
  DOUBLE s;
  DOUBLE s_low;
  two_product(a, a, s, s_low);
  DOUBLE e_low;
  LONG m;
  exp_parts(-s, -s_low, e_high, e_low, m);
  DOUBLE b;
  DOUBLE b_low;
  two_product(a, FROM_BITS64(ULONG(0x3ff6a09e667f3bcd) /* 1.41421356 */), b, b_low);
  b_low = FMA64(a, FROM_BITS64(ULONG(0xbc9bdd3413b26456) /* -9.66729331e-17 */), b_low);
  DOUBLE h;
  DOUBLE h_low;
  scaled_tail(b, h, h_low);
  h_low = FMA64(b_low, FMA64(b, h, -FROM_BITS64(ULONG(0x3fd9884533d43651) /* 0.39894228 */)), h_low);  // its derivative
  two_product(e_high, h, high, low);
  low = FMA64(e_low, h, low);
  low = FMA64(e_high, h_low, low);
  n = m + LONG(1);
}

FUNCTION double ls_erfc(double x) {
  ULONG magnitude = BITS64(x) & ULONG(0x7fffffffffffffff);
  DOUBLE a = FROM_BITS64(SELECT(magnitude > ULONG(0x403c000000000000) /* 28 */, ULONG(0x403c000000000000), magnitude));
  DOUBLE high;
  DOUBLE low;
  DOUBLE e_high;
  LONG n;
  erfc_parts(a, high, low, e_high, n);
  DOUBLE positive = scale_by_power(high + low, n);
  LONG m = SELECT(n < LONG(-200), LONG(-200), n);
  DOUBLE scale = FROM_BITS64(ULONG(m + LONG(1023)) << 52);
  DOUBLE s;
  DOUBLE s_low;
  fast_two_sum(2.0, -high * scale, s, s_low);
  DOUBLE negative = s + FMA64(-low, scale, s_low);
  ULONG result = BITS64(blend(SIGN_MASK64(BITS64(x)), negative, positive));
  return FROM_BITS64(SELECT(magnitude > ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), result));
}

FUNCTION double ls_erfinv(double x) {
  ULONG magnitude = BITS64(x) & ULONG(0x7fffffffffffffff);
  ULONG outside = SIGN_MASK64(ULONG(0x3fefffffffffffff) - magnitude);
  DOUBLE a = FROM_BITS64(magnitude & ~outside);
  DOUBLE c = 1.0 - a;
  // A start, good to 2^-26, as a polynomial in w = -log(1 - x^2) or in its root
  DOUBLE w = -ls_log(c * (1.0 + a));
  DOUBLE near_w = w - 2.5;
  DOUBLE far_w = SQRT64(float_abs(w)) - 4.125;
  ULONG far = ULONG(0) - SELECT(w > 5.0, ULONG(1), ULONG(0));
  DOUBLE v = near_w;
  DOUBLE p = FROM_BITS64(ULONG(0x3e00435cef69b7fb) /* 4.73319577e-10 */);
  p = FMA64(p, v, FROM_BITS64(ULONG(0xbe42c267e6a11ad9) /* -8.73552538e-09 */));
  p = FMA64(p, v, FROM_BITS64(ULONG(0x3e51116dfdf3cb10) /* 1.58958925e-08 */));
  p = FMA64(p, v, FROM_BITS64(ULONG(0x3e9f3b0f5f02e71b) /* 4.65373744e-07 */));
  p = FMA64(p, v, FROM_BITS64(ULONG(0xbeccb6c62998274b) /* -3.42297092e-06 */));
  p = FMA64(p, v, FROM_BITS64(ULONG(0xbed4cd3c67fec718) /* -4.95951247e-06 */));
  p = FMA64(p, v, FROM_BITS64(ULONG(0x3f2c9b7bd8441c38) /* 0.000218256824 */));
  p = FMA64(p, v, FROM_BITS64(ULONG(0xbf548668bfb720fb) /* -0.00125274877 */));
  p = FMA64(p, v, FROM_BITS64(ULONG(0xbf711c3ca3e19c4d) /* -0.00417731941 */));
  p = FMA64(p, v, FROM_BITS64(ULONG(0x3fcf91e8b4b4de51) /* 0.24664029 */));
  p = FMA64(p, v, FROM_BITS64(ULONG(0x3ff805c5cfca0ab9) /* 1.50140935 */));
  DOUBLE near = p;
  v = far_w;
  p = FROM_BITS64(ULONG(0x3df0ae7e005c05df) /* 2.42749376e-10 */);
  p = FMA64(p, v, FROM_BITS64(ULONG(0x3e76eedd7f28b831) /* 8.5432333e-08 */));
  p = FMA64(p, v, FROM_BITS64(ULONG(0xbe9b809d76431584) /* -4.09817736e-07 */));
  p = FMA64(p, v, FROM_BITS64(ULONG(0xbe5d655fd4eafcd6) /* -2.73771524e-08 */));
  p = FMA64(p, v, FROM_BITS64(ULONG(0x3ecc78dc3b225801) /* 3.39414006e-06 */));
  p = FMA64(p, v, FROM_BITS64(ULONG(0xbee034c4e3a88e2b) /* -7.72768464e-06 */));
  p = FMA64(p, v, FROM_BITS64(ULONG(0x3ee324a47674e9b4) /* 9.12815786e-06 */));
  p = FMA64(p, v, FROM_BITS64(ULONG(0xbeee6bfc30bd1742) /* -1.45062527e-05 */));
  p = FMA64(p, v, FROM_BITS64(ULONG(0x3f02566bdd1d4f9e) /* 3.49761646e-05 */));
  p = FMA64(p, v, FROM_BITS64(ULONG(0xbf171231d999ddee) /* -8.80091597e-05 */));
  p = FMA64(p, v, FROM_BITS64(ULONG(0x3f30ecb74dbbc9f5) /* 0.00025825 */));
  p = FMA64(p, v, FROM_BITS64(ULONG(0xbf47b904ac73fab1) /* -0.000723960192 */));
  p = FMA64(p, v, FROM_BITS64(ULONG(0x3f4f852523fae07d) /* 0.000961917052 */));
  p = FMA64(p, v, FROM_BITS64(ULONG(0x3ff0280453c14041) /* 1.00976975 */));
  p = FMA64(p, v, FROM_BITS64(ULONG(0x400fba58306575fc) /* 3.96598852 */));
  DOUBLE y = a * blend(far, p, near);
  // One step of Halley's method. erf(y) - x is (1 - x) - erfc(y), for small x y - x + y q(y^2).
  DOUBLE high;
  DOUBLE low;
  DOUBLE e_high;
  LONG n;
  erfc_parts(y, high, low, e_high, n);
  DOUBLE scale = FROM_BITS64(ULONG(LONG(1023) - n) << 52);
  DOUBLE difference = FMA64(c, scale, -high) - low;  // in units of 2^n, exact but for the last subtraction
  DOUBLE z = y * y;
  DOUBLE d = y - a;
  DOUBLE small = FMA64(y, erf_polynomial(z), d) * scale;
  ULONG center = SIGN_MASK64(magnitude - ULONG(0x3fe0000000000000) /* 0.5 */);
  DOUBLE u = blend(center, small, difference) / e_high * FROM_BITS64(ULONG(0x3ffc5bf891b4ef6b) /* 1.77245385 */);
  DOUBLE step = u / FMA64(u, y, 1.0);
  DOUBLE result = y - step;
  DOUBLE factor = FROM_BITS64(ULONG(0x3fec5bf891b4ef6b) /* 0.886226925 */);
  DOUBLE line = FMA64(a, factor, a * FROM_BITS64(ULONG(0xbc8618f13eb7ca89) /* -3.83329325e-17 */));
  ULONG tiny = SIGN_MASK64(magnitude - ULONG(0x3e40000000000000) /* 2^-27 */);
  ULONG word = BITS64(blend(tiny, line, result));
  word = SELECT(magnitude == ULONG(0x3ff0000000000000), ULONG(0x7ff0000000000000), word);
  word = word | (BITS64(x) & ULONG(0x8000000000000000));
  return FROM_BITS64(SELECT(magnitude > ULONG(0x3ff0000000000000), ULONG(0x7ff8000000000000), word));
}

// --- the gamma family ------------------------------------------------------------------------------------------------

/// sin(pi a) and cos(pi a) up to a common sign, to 2^-56, for a >= 0; a - round(a) is exact, so no reduction is needed.
FUNCTION void sin_cos_pi(double a, OUT(DOUBLE, s), OUT(DOUBLE, s_low), OUT(DOUBLE, c), OUT(DOUBLE, c_low)) {
  DOUBLE r = a - float_round(a);
  ULONG sign = BITS64(r) & ULONG(0x8000000000000000);
  DOUBLE t = float_abs(r);
  ULONG swap = ULONG(0) - SELECT(t > 0.25, ULONG(1), ULONG(0));
  DOUBLE part = blend(swap, 0.5 - t, t);
  DOUBLE y;
  DOUBLE y_low;
  two_product(part, FROM_BITS64(ULONG(0x400921fb54442d18) /* 3.14159265 */), y, y_low);
  y_low = FMA64(part, FROM_BITS64(ULONG(0x3ca1a62633145c07) /* 1.2246468e-16 */), y_low);
  DOUBLE s0;
  DOUBLE s0_low;
  DOUBLE c0;
  DOUBLE c0_low;
  sin_parts(y, y_low, s0, s0_low);
  cos_parts(y, y_low, c0, c0_low);
  s = FROM_BITS64(BITS64(blend(swap, c0, s0)) ^ sign);
  s_low = FROM_BITS64(BITS64(blend(swap, c0_low, s0_low)) ^ sign);
  c = blend(swap, s0, c0);
  c_low = blend(swap, s0_low, c0_low);
}

/// a (log Gamma(a) - (a - 1/2) log(a) + a - log(2 pi) / 2) over w = 1 / a^2, a >= 8.
FUNCTION double stirling_polynomial(double w) {
  DOUBLE p = FROM_BITS64(ULONG(0x3fbc29fa0938dc75) /* 0.110015514 */);
  p = FMA64(p, w, FROM_BITS64(ULONG(0xbf9c6897b53f18b7) /* -0.0277427391 */));
  p = FMA64(p, w, FROM_BITS64(ULONG(0x3f7a2565f393d9d6) /* 0.006383322 */));
  p = FMA64(p, w, FROM_BITS64(ULONG(0xbf5f69af4caf8c9f) /* -0.00191728705 */));
  p = FMA64(p, w, FROM_BITS64(ULONG(0x3f4b951b7065a053) /* 0.000841749571 */));
  p = FMA64(p, w, FROM_BITS64(ULONG(0xbf4381381168d232) /* -0.000595238091 */));
  p = FMA64(p, w, FROM_BITS64(ULONG(0x3f4a01a01a00d0c8) /* 0.000793650794 */));
  p = FMA64(p, w, FROM_BITS64(ULONG(0xbf66c16c16c16c0f) /* -0.00277777778 */));
  p = FMA64(p, w, FROM_BITS64(ULONG(0x3fb5555555555555) /* 0.0833333333 */));
  return p;
}
/// a^2 (log(a) - 1 / (2 a) - digamma(a)) over w = 1 / a^2, a >= 8.
FUNCTION double psi_polynomial(double w) {
  DOUBLE p = FROM_BITS64(ULONG(0x3ffc5b84a3176bb7) /* 1.77234329 */);
  p = FMA64(p, w, FROM_BITS64(ULONG(0xbfda43dc635de125) /* -0.4103919 */));
  p = FMA64(p, w, FROM_BITS64(ULONG(0x3fb5356fb7e904fc) /* 0.0828466248 */));
  p = FMA64(p, w, FROM_BITS64(ULONG(0xbf959837b45f02b5) /* -0.0210884765 */));
  p = FMA64(p, w, FROM_BITS64(ULONG(0x3f7f07bbcef4fd3b) /* 0.00757573474 */));
  p = FMA64(p, w, FROM_BITS64(ULONG(0xbf7111110c5db64d) /* -0.0041666666 */));
  p = FMA64(p, w, FROM_BITS64(ULONG(0x3f704104103f3355) /* 0.00396825397 */));
  p = FMA64(p, w, FROM_BITS64(ULONG(0xbf811111111110ee) /* -0.00833333333 */));
  p = FMA64(p, w, FROM_BITS64(ULONG(0x3fb5555555555555) /* 0.0833333333 */));
  return p;
}

/// log |Gamma(a)| = high + low for 0 < a < inf.
FUNCTION void lgamma_parts(double a, OUT(DOUBLE, high), OUT(DOUBLE, low)) {
  // Below 8: Gamma(a) = Gamma(2 + u) (a - 1) ... (a - k) or Gamma(2 + u) / (a (a + 1)) with u in [-1/2, 1/2]
  DOUBLE near = SELECT(a < 8.0, a, 8.0);
  DOUBLE k = float_floor(near - 0.5) - 1.0;
  DOUBLE u = near - (k + 2.0);
  DOUBLE p = FROM_BITS64(ULONG(0x3e501127da9788f9) /* 1.49635732e-08 */);
  p = FMA64(p, u, FROM_BITS64(ULONG(0xbe60cfcd77c3ec5f) /* -3.13142854e-08 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0x3e68367966486352) /* 4.50998357e-08 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0xbe798152dabaf411) /* -9.50141643e-08 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0x3e8c959188a8539d) /* 2.12969273e-07 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0xbe9e46267845840a) /* -4.51118119e-07 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0x3eb0057bc58baf67) /* 9.54951039e-07 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0xbec11a54bc3cfe3c) /* -2.03881925e-06 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0x3ed259814c96e3bd) /* 4.37489252e-06 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0xbee3cbd0c34c2671) /* -9.43954192e-06 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0x3ef580dcc735f957) /* 2.05072105e-05 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0xbf078de594a1f5d8) /* -4.49262321e-05 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0x3f1a127b0f9ee692) /* 9.94575129e-05 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0xbf2d3fd4c7f9fa26) /* -0.000223154759 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0x3f40b36af8630f5f) /* 0.000509669525 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0xbf538ac5c2bf00bf) /* -0.00119275391 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0x3f67add6eadb6cbb) /* 0.00289051033 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0xbf7e404fc218f683) /* -0.00738555103 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0x3f951322ac7d8483) /* 0.0205808084 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0xbfb13e001a557606) /* -0.0673523011 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0x3fd4a34cc4a60fa6) /* 0.322467033 */));
  DOUBLE c0 = FROM_BITS64(ULONG(0x3fdb0ee6072093ce) /* 0.422784335 */);
  DOUBLE g = FMA64(p, u, c0);
  DOUBLE g1 = c0 - g;
  DOUBLE g_low = FMA64(p, u, g1) + FROM_BITS64(ULONG(0x3c56ca9a43c86afd) /* 4.94210063e-18 */);
  DOUBLE base;
  DOUBLE base_low;
  two_product(g, u, base, base_low);
  base_low = FMA64(g_low, u, base_low);
  DOUBLE product = SELECT(k < 0.0, near, 1.0);
  DOUBLE product_low = 0.0;
  DOUBLE next;
  DOUBLE next_low;
  fast_two_sum(1.0, near, next, next_low);
  ULONG twice = ULONG(0) - SELECT(k < -1.0, ULONG(1), ULONG(0));
  DOUBLE factor = blend(twice, next, 1.0);
  DOUBLE factor_low = FROM_BITS64(BITS64(next_low) & twice);
  for (int i = 1; i <= 7; ++i) {
    DOUBLE p_high = product * factor;
    DOUBLE p_low = FMA64(product, factor, -p_high);
    p_low = FMA64(product_low, factor, p_low);
    p_low = FMA64(product, factor_low, p_low);
    fast_two_sum(p_high, p_low, product, product_low);
    DOUBLE step = double_of_word(ULONG(i));
    factor = SELECT(k < step, 1.0, near - step);
    factor_low = 0.0;
  }
  ULONG large = ULONG(0) - SELECT(a < 8.0, ULONG(0), ULONG(1));
  DOUBLE h;
  DOUBLE l;
  log_parts(blend(large, a, product), FROM_BITS64(BITS64(product_low) & ~large), h, l);
  ULONG inverted = ULONG(0) - SELECT(k < 0.0, ULONG(1), ULONG(0));
  DOUBLE s;
  DOUBLE s_low;
  two_sum(base, blend(inverted, -h, h), s, s_low);
  s_low = s_low + (blend(inverted, -l, l) + base_low);
  // From 8: (a - 1/2) (log(a) - 1) + log(2 pi) / 2 - 1/2 + p(1 / a^2) / a
  DOUBLE b = SELECT(a < 8.0, 8.0, a);
  DOUBLE y = 1.0 / b;
  DOUBLE w = y * y;
  DOUBLE correction = y * stirling_polynomial(w);
  DOUBLE m;
  DOUBLE m_low;
  fast_two_sum(h, -1.0, m, m_low);
  m_low = m_low + l;
  DOUBLE t;
  DOUBLE t_low;
  DOUBLE shifted = b - 0.5;
  two_product(shifted, m, t, t_low);
  t_low = FMA64(shifted, m_low, t_low);
  DOUBLE v;
  DOUBLE v_low;
  fast_two_sum(t, FROM_BITS64(ULONG(0x3fdacfe390c97d69) /* 0.418938533 */), v, v_low);
  DOUBLE q;
  DOUBLE q_low;
  fast_two_sum(v, correction, q, q_low);
  q_low = q_low + (v_low + (t_low + FROM_BITS64(ULONG(0x3c73494bc9001442) /* 1.67282097e-17 */)));
  ULONG infinite = ULONG(0) - SELECT(t < FROM_BITS64(ULONG(0x7ff0000000000000)), ULONG(0), ULONG(1));
  q_low = FROM_BITS64(BITS64(q_low) & ~infinite);
  DOUBLE result;
  DOUBLE rest;
  fast_two_sum(blend(large, q, s), blend(large, q_low, s_low), result, rest);
  high = result;
  low = FROM_BITS64(BITS64(rest) & ~infinite);
}

/// log |Gamma(x)|; inf at 0 and the negative integers.
FUNCTION double ls_lgamma(double x) {
  ULONG magnitude = BITS64(x) & ULONG(0x7fffffffffffffff);
  ULONG infinity = ULONG(0x7ff0000000000000);
  ULONG usable = SIGN_MASK64(magnitude - infinity);
  usable = usable & SIGN_MASK64(ULONG(0) - magnitude);  // finite and not 0
  DOUBLE a = blend(usable, FROM_BITS64(magnitude), 1.0);
  DOUBLE high;
  DOUBLE low;
  lgamma_parts(a, high, low);
  // log(pi / (a |sin(pi a)|)) - log(Gamma(a)) for negative x; next to 0 the same as for positive x
  DOUBLE s;
  DOUBLE s_low;
  DOUBLE c;
  DOUBLE c_low;
  sin_cos_pi(a, s, s_low, c, c_low);
  ULONG pole = ULONG(0) - SELECT(s == 0.0, ULONG(1), ULONG(0));
  ULONG tiny = SIGN_MASK64(magnitude - ULONG(0x3c30000000000000) /* 2^-60 */);
  ULONG sign = BITS64(s) & ULONG(0x8000000000000000);
  DOUBLE sine = FROM_BITS64((BITS64(blend(pole | tiny, 1.0, s))) & ULONG(0x7fffffffffffffff));
  DOUBLE sine_low = FROM_BITS64((BITS64(s_low) ^ sign) & ~(pole | tiny));
  DOUBLE factor = blend(pole | tiny, 1.0, a);
  DOUBLE p;
  DOUBLE p_low;
  two_product(sine, factor, p, p_low);
  p_low = FMA64(sine_low, factor, p_low);
  DOUBLE p1;
  DOUBLE p1_low;
  fast_two_sum(p, p_low, p1, p1_low);
  DOUBLE h;
  DOUBLE l;
  log_parts(p1, p1_low, h, l);
  DOUBLE d;
  DOUBLE d_low;
  DOUBLE e;
  DOUBLE e_low;
  two_sum(FROM_BITS64(ULONG(0x3ff250d048e7a1bd) /* 1.14472989 */), -h, d, d_low);
  two_sum(d, -high, e, e_low);
  DOUBLE reflected = e + (e_low + ((d_low + (FROM_BITS64(ULONG(0x3c67abf2ad8d5088) /* 1.02659512e-17 */) - l)) - low));
  ULONG negative = SIGN_MASK64(BITS64(x)) & ~tiny;
  ULONG result = BITS64(blend(negative, reflected, high));
  result = (infinity & negative & pole) | (result & ~(negative & pole));
  result = (result & usable) | (infinity & ~usable);
  return FROM_BITS64(SELECT(magnitude > infinity, ULONG(0x7ff8000000000000), result));
}

/// d/da log(Gamma(a)) = high + low for 0 < a < inf, with 1 / a added where a < 1.
FUNCTION void digamma_parts(double a, OUT(DOUBLE, high), OUT(DOUBLE, low)) {
  // Below 8: psi(a) = psi(t) + 1 / (a - 1) + ... + 1 / (a - k) with t in [1, 2]; psi has its root there
  DOUBLE near = SELECT(a < 8.0, a, 7.0);
  DOUBLE k = float_floor(near) - 1.0;
  DOUBLE whole = SELECT(k < 0.0, -1.0, k);
  DOUBLE u = near - (whole + 1.5);
  DOUBLE p = FROM_BITS64(ULONG(0x3f1f255c4568ac4d) /* 0.000118812329 */);
  p = FMA64(p, u, FROM_BITS64(ULONG(0xbf275c084e78a4cd) /* -0.000178218855 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0x3f194e73cc9821e1) /* 9.65364626e-05 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0xbf22fae5cb379bf2) /* -0.000144806434 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0x3f353b23429da21b) /* 0.000323959454 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0xbf3fd8e50abf2196) /* -0.000485950392 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0x3f46a3e76070c135) /* 0.000690925576 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0xbf50fb38d217b800) /* -0.00103645848 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0x3f599d3f5c0cad5e) /* 0.00156336963 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0xbf6336dbe66757c8) /* -0.00234549474 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0x3f6cd2011454fd05) /* 0.00351810656 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0xbf75a06a5d662cb4) /* -0.00527993726 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0x3f803c0adafa529c) /* 0.0079270218 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0xbf8863563f44f303) /* -0.0119082201 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0x3f92564717896ec6) /* 0.0179072483 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0xbf9b9f8b11bfd3d0) /* -0.0269757967 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0x3fa4de9aa1779d23) /* 0.0407608339 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0xbfafb44202a2306b) /* -0.0619221333 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0x3fb8512e5903903e) /* 0.0949887245 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0xbfc2feeeb98a78ea) /* -0.148404923 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0x3fceca189b8e6f6d) /* 0.240542484 */));
  p = FMA64(p, u, FROM_BITS64(ULONG(0xbfdb1cb63005ee98) /* -0.423627421 */));
  DOUBLE c0 = FROM_BITS64(ULONG(0x3fee6f0cbb873616) /* 0.951055876 */);
  DOUBLE g = FMA64(p, u, c0);
  DOUBLE g1 = c0 - g;
  DOUBLE g_low = FMA64(p, u, g1) + FROM_BITS64(ULONG(0x3c88f70c7a125e6a) /* 4.33074308e-17 */);
  DOUBLE d;
  DOUBLE d_low;
  two_sum(u, -FROM_BITS64(ULONG(0xbfa3a4f395283812) /* -0.038367855 */), d, d_low);
  DOUBLE base;
  DOUBLE base_low;
  two_product(d, g, base, base_low);
  base_low = FMA64(d, g_low, base_low);
  base_low = FMA64(d_low - FROM_BITS64(ULONG(0xbc3e563779a1f5b1) /* -1.64456036e-18 */), g, base_low);
  DOUBLE sum = 0.0;
  DOUBLE sum_low = 0.0;
  for (int i = 1; i <= 6; ++i) {
    DOUBLE step = double_of_word(ULONG(i));
    DOUBLE distance = SELECT(k < step, 1.0, near - step);
    DOUBLE term = 1.0 / distance;
    DOUBLE term_low = FMA64(-term, distance, 1.0) * term;
    DOUBLE added = SELECT(k < step, 0.0, term);
    DOUBLE added_low = SELECT(k < step, 0.0, term_low);
    DOUBLE before = sum;
    DOUBLE rest;
    two_sum(before, added, sum, rest);
    sum_low = sum_low + (rest + added_low);
  }
  DOUBLE s;
  DOUBLE s_low;
  two_sum(sum, base, s, s_low);
  s_low = s_low + (sum_low + base_low);
  // From 8: log(a) - 1 / (2 a) - p(1 / a^2) / a^2
  DOUBLE b = SELECT(a < 8.0, 8.0, a);
  DOUBLE y = 1.0 / b;
  DOUBLE w = y * y;
  DOUBLE h;
  DOUBLE l;
  log_parts(b, 0.0, h, l);
  DOUBLE correction = FMA64(w, psi_polynomial(w), 0.5 * y);
  DOUBLE t;
  DOUBLE t_low;
  fast_two_sum(h, -correction, t, t_low);
  ULONG large = ULONG(0) - SELECT(a < 8.0, ULONG(0), ULONG(1));
  fast_two_sum(blend(large, t, s), blend(large, t_low + l, s_low), high, low);
}

/// -inf at 0, inf at -0, NaN at the negative integers and at -inf, as in PyTorch.
FUNCTION double ls_digamma(double x) {
  ULONG magnitude = BITS64(x) & ULONG(0x7fffffffffffffff);
  ULONG infinity = ULONG(0x7ff0000000000000);
  ULONG usable = SIGN_MASK64(magnitude - infinity);
  ULONG tiny = SIGN_MASK64(magnitude - ULONG(0x3c30000000000000) /* 2^-60 */);
  DOUBLE a = blend(usable & ~tiny, FROM_BITS64(magnitude), 1.0);
  DOUBLE high;
  DOUBLE low;
  digamma_parts(a, high, low);
  DOUBLE y;
  DOUBLE y_low;
  quotient_parts(1.0, 0.0, a, 0.0, y, y_low);
  // positive x: psi(a). Negative x: psi(1 + a) + pi cot(pi a), where psi(1 + a) = psi(a) + 1 / a
  ULONG below_one = ULONG(0) - SELECT(a < 1.0, ULONG(1), ULONG(0));
  ULONG negative = SIGN_MASK64(BITS64(x));
  ULONG add = below_one ^ negative;  // -1 / a for positive x below 1, 1 / a for negative x from -1
  ULONG sign = ~negative & ULONG(0x8000000000000000);
  DOUBLE term = FROM_BITS64((BITS64(y) ^ sign) & add);
  DOUBLE term_low = FROM_BITS64((BITS64(y_low) ^ sign) & add);
  DOUBLE s;
  DOUBLE s_low;
  DOUBLE c;
  DOUBLE c_low;
  sin_cos_pi(a, s, s_low, c, c_low);
  DOUBLE q;
  DOUBLE q_low;
  quotient_parts(c, c_low, s, s_low, q, q_low);
  DOUBLE f;
  DOUBLE f_low;
  two_product(q, FROM_BITS64(ULONG(0x400921fb54442d18) /* 3.14159265 */), f, f_low);
  f_low = FMA64(q, FROM_BITS64(ULONG(0x3ca1a62633145c07) /* 1.2246468e-16 */), f_low);
  f_low = FMA64(q_low, FROM_BITS64(ULONG(0x400921fb54442d18) /* 3.14159265 */), f_low);
  DOUBLE r;
  DOUBLE r_low;
  two_sum(high, term, r, r_low);
  r_low = r_low + (low + term_low);
  DOUBLE e;
  DOUBLE e_low;
  two_sum(r, FROM_BITS64(BITS64(f) & negative), e, e_low);
  DOUBLE result = e + (e_low + (r_low + FROM_BITS64(BITS64(f_low) & negative)));
  DOUBLE pole = -1.0 / x;
  ULONG word = BITS64(blend(tiny, pole, result));
  ULONG undefined = negative & ~tiny & (ULONG(0) - SELECT(s == 0.0, ULONG(1), ULONG(0)));
  word = (ULONG(0x7ff8000000000000) & undefined) | (word & ~undefined);
  word = (word & usable) | (infinity & ~usable);
  word = SELECT(BITS64(x) == ULONG(0xfff0000000000000), ULONG(0x7ff8000000000000), word);
  return FROM_BITS64(SELECT(magnitude > infinity, ULONG(0x7ff8000000000000), word));
}
