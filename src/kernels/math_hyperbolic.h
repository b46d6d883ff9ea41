// f32 hyperbolic functions and their inverses (ls_tanh stands in math.h). In the kernel subset, rules and names as in
// math.h.

/// e^a + e_sign e^-a = 2^n (sum + sum_low) for a in [0, 100]; e_sign is the sign bit of the second term.
FUNCTION void exp_with_inverse(float a, UINT e_sign, OUT(FLOAT, sum), OUT(FLOAT, sum_low), OUT(int, n)) {
  FLOAT high;
  FLOAT low;
  exp_parts(a, FROM_BITS(0x80000000u), high, low, n);
  FLOAT y = reciprocal_estimate(high);
  FLOAT e = FMA(-high, y, FROM_BITS(0x3f800000u /* 1 */));
  e = FMA(-low, y, e);
  int places = SELECT(n > 30, 60, n + n);
  FLOAT scale = FROM_BITS(UINT(127 - places) << 23);
  FLOAT inverse = FROM_BITS(BITS(y * scale) ^ e_sign);
  FLOAT inverse_low = inverse * e;
  FLOAT s;
  FLOAT s_low;
  exact_sum(high, inverse, s, s_low);
  sum_low = s_low + (low + inverse_low);
  sum = s;
}

FUNCTION float ls_sinh(float x) {
  UINT magnitude = BITS(x) & 0x7fffffffu;
  FLOAT a = FROM_BITS(SELECT(magnitude > 0x42c80000u /* 100 */, 0x42c80000u, magnitude));
  FLOAT sum;
  FLOAT sum_low;
  int n;
  exp_with_inverse(a, 0x80000000u, sum, sum_low, n);
  FLOAT m = sum + sum_low;
  UINT large = BITS(m) + (UINT(n - 1) << 23);
  large = choose(mask_below(0x42b2d4fcu /* 89.4159851, the last finite one */, magnitude), 0x7f800000u, large);
  // a + a^3 p(a^2)
  FLOAT z = a * a;
  FLOAT p = FROM_BITS(0x363ab60fu /* 2.78221319e-06 */);
  p = FMA(p, z, FROM_BITS(0x3950115eu /* 0.000198428956 */));
  p = FMA(p, z, FROM_BITS(0x3c088870u /* 0.00833331048 */));
  p = FMA(p, z, FROM_BITS(0x3e2aaaabu /* 0.166666672 */));
  FLOAT az = a * z;
  FLOAT small = FMA(az, p, a);
  UINT result = choose(mask_below(magnitude, 0x3f800000u /* 1 */), BITS(small), large);
  result = choose(mask_below(magnitude, 0x39000000u /* 2^-13 */), magnitude, result);
  result = result | (BITS(x) & 0x80000000u);
  return FROM_BITS(choose(mask_below(0x7f800000u, magnitude), 0x7fc00000u, result));
}

FUNCTION float ls_cosh(float x) {
  UINT magnitude = BITS(x) & 0x7fffffffu;
  FLOAT a = FROM_BITS(SELECT(magnitude > 0x42c80000u /* 100 */, 0x42c80000u, magnitude));
  FLOAT sum;
  FLOAT sum_low;
  int n;
  exp_with_inverse(a, 0u, sum, sum_low, n);
  FLOAT m = sum + sum_low;
  UINT result = BITS(m) + (UINT(n - 1) << 23);
  result = SELECT(magnitude > 0x42b2d4fcu /* 89.4159851, the last finite one */, 0x7f800000u, result);
  return FROM_BITS(SELECT(magnitude > 0x7f800000u, 0x7fc00000u, result));
}

/// root + root_low = sqrt(s + s_low) for s in [2^-60, 2^100].
FUNCTION void square_root_parts(float s, float s_low, OUT(FLOAT, root), OUT(FLOAT, root_low)) {
  FLOAT y = SQRT(s);
  FLOAT rest = FMA(-y, y, s) + s_low;
  root_low = FROM_BITS(0x3f000000u /* 0.5 */) * reciprocal_estimate(y) * rest;
  root = y;
}

/// log1p(a + a^2 / (1 + sqrt(1 + a^2))), or log(2 a) of large ones: the second term is then a, but for 1 / a.
FUNCTION float ls_asinh(float x) {
  UINT magnitude = BITS(x) & 0x7fffffffu;
  UINT most = SELECT(magnitude > 0x4e800000u /* 2^30 */, 0x4e800000u, magnitude);
  FLOAT a = FROM_BITS(SELECT(most < 0x30800000u /* 2^-30 */, 0x30800000u, most));
  FLOAT square = a * a;
  FLOAT square_low = FMA(a, a, -square);
  FLOAT s;
  FLOAT s_low;
  exact_sum(square, FROM_BITS(0x3f800000u /* 1 */), s, s_low);
  FLOAT root;
  FLOAT root_low;
  square_root_parts(s, s_low + square_low, root, root_low);
  FLOAT d;
  FLOAT d_low;
  exact_sum_ordered(root, FROM_BITS(0x3f800000u /* 1 */), d, d_low);
  d_low = d_low + root_low;
  FLOAT y = reciprocal_estimate(d);
  FLOAT q = square * y;
  FLOAT rest = FMA(-q, d, square);
  rest = FMA(-q, d_low, rest) + square_low;
  FLOAT q_low = rest * y;
  FLOAT u;
  FLOAT u_low;
  exact_sum(a, q, u, u_low);
  u_low = u_low + q_low;
  UINT far = SELECT(magnitude > 0x4e800000u /* 2^30 */, 0xffffffffu, 0u);
  FLOAT high;
  FLOAT low;
  FLOAT chosen = FROM_BITS((BITS(u) & ~far) | (magnitude & far));
  log1p_parts(chosen, FROM_BITS(BITS(u_low) & ~far), high, low);
  FLOAT doubled;
  FLOAT doubled_low;
  exact_sum_ordered(high, FROM_BITS(0x3f317218u /* 0.693147182 */ & far), doubled, doubled_low);
  FLOAT z = doubled + (doubled_low + low);
  UINT result = SELECT(magnitude < 0x39000000u /* 2^-13 */, magnitude, BITS(z));
  result = SELECT(magnitude == 0x7f800000u, 0x7f800000u, result);
  result = result | (BITS(x) & 0x80000000u);
  return FROM_BITS(SELECT(magnitude > 0x7f800000u, 0x7fc00000u, result));
}

/// log1p(t + sqrt(t (t + 2))), t = x - 1; log(2 x) of large ones.
FUNCTION float ls_acosh(float x) {
  UINT bits = BITS(x);
  UINT most = SELECT(bits > 0x4e800000u /* 2^30, and negatives */, 0x4e800000u, bits);
  FLOAT a = FROM_BITS(SELECT(most < 0x3f800001u, 0x3f800001u, most));
  FLOAT t;
  FLOAT t_low;
  exact_sum_ordered(a, FROM_BITS(0xbf800000u /* -1 */), t, t_low);
  FLOAT v;
  FLOAT v_low;
  exact_sum_ordered(a, FROM_BITS(0x3f800000u /* 1 */), v, v_low);
  FLOAT s = t * v;
  FLOAT s_low = FMA(t, v, -s);
  s_low = FMA(t, v_low, s_low);
  s_low = FMA(t_low, v, s_low);
  FLOAT root;
  FLOAT root_low;
  square_root_parts(s, s_low, root, root_low);
  FLOAT u;
  FLOAT u_low;
  exact_sum(root, t, u, u_low);
  u_low = u_low + (root_low + t_low);
  UINT far = SELECT(bits > 0x4e800000u /* 2^30 */, 0xffffffffu, 0u);
  FLOAT high;
  FLOAT low;
  FLOAT chosen = FROM_BITS((BITS(u) & ~far) | (bits & far));
  log1p_parts(chosen, FROM_BITS(BITS(u_low) & ~far), high, low);
  FLOAT doubled;
  FLOAT doubled_low;
  exact_sum_ordered(high, FROM_BITS(0x3f317218u /* 0.693147182 */ & far), doubled, doubled_low);
  FLOAT z = doubled + (doubled_low + low);
  UINT result = SELECT(bits == 0x3f800000u /* 1 */, 0u, BITS(z));
  result = SELECT(bits == 0x7f800000u, 0x7f800000u, result);
  result = SELECT(int(bits) < 0x3f800000 /* 1 */, 0x7fc00000u, result);
  return FROM_BITS(SELECT((bits & 0x7fffffffu) > 0x7f800000u, 0x7fc00000u, result));
}

/// log1p(2 a / (1 - a)) / 2
FUNCTION float ls_atanh(float x) {
  UINT magnitude = BITS(x) & 0x7fffffffu;
  UINT most = SELECT(magnitude > 0x3f7fffffu, 0x3f7fffffu, magnitude);
  FLOAT a = FROM_BITS(SELECT(most < 0x30800000u /* 2^-30 */, 0x30800000u, most));
  FLOAT d;
  FLOAT d_low;
  exact_sum_ordered(FROM_BITS(0x3f800000u /* 1 */), -a, d, d_low);
  FLOAT y = reciprocal_estimate(d);
  FLOAT n = a + a;
  FLOAT q0 = n * y;
  FLOAT rest = FMA(-q0, d, n);
  rest = FMA(-q0, d_low, rest);
  FLOAT q = FMA(rest, y, q0);
  rest = FMA(-q, d, n);
  rest = FMA(-q, d_low, rest);
  FLOAT high;
  FLOAT low;
  log1p_parts(q, rest * y, high, low);
  FLOAT z = FROM_BITS(0x3f000000u /* 0.5 */) * (high + low);
  UINT result = SELECT(magnitude < 0x39000000u /* 2^-13 */, magnitude, BITS(z));
  result = SELECT(magnitude == 0x3f800000u /* 1 */, 0x7f800000u, result);
  result = result | (BITS(x) & 0x80000000u);
  return FROM_BITS(SELECT(magnitude > 0x3f800000u /* 1 */, 0x7fc00000u, result));
}
