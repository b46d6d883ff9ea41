// f32 powers and logarithms: exp2, expm1, log2, log10, log1p, pow, hypot, logaddexp, and the two-float logarithms that
// other texts build on. In the kernel subset, rules and names as in math.h.

// --- masks -----------------------------------------------------------------------------------------------------------

/// All bits where a < b, for words below 2^31; and where a differs from b. Chains of selects would become branches.
FUNCTION UINT mask_below(UINT a, UINT b) {
  return 0u - ((a - b) >> 31);
}
FUNCTION UINT mask_unequal(UINT a, UINT b) {
  UINT d = a ^ b;
  return 0u - ((d | (0u - d)) >> 31);
}
/// x where the mask is set, else y.
FUNCTION UINT choose(UINT mask, UINT x, UINT y) {
  return (x & mask) | (y & ~mask);
}

// --- sums and logarithms in two floats -------------------------------------------------------------------------------

/// sum + low = a + b exactly.
FUNCTION void exact_sum(float a, float b, OUT(FLOAT, sum), OUT(FLOAT, low)) {
  FLOAT s = a + b;
  FLOAT from_b = s - a;
  FLOAT from_a = s - from_b;
  FLOAT rest_a = a - from_a;
  FLOAT rest_b = b - from_b;
  low = rest_a + rest_b;
  sum = s;
}

/// The same where a is 0 or no smaller than b.
FUNCTION void exact_sum_ordered(float a, float b, OUT(FLOAT, sum), OUT(FLOAT, low)) {
  FLOAT s = a + b;
  FLOAT from_b = s - a;
  low = b - from_b;
  sum = s;
}

/// x = 2^exponent (1 + f) with f in [-1/3, 1/3], for positive normal x; both exact.
FUNCTION void split_near_one(UINT bits, OUT(FLOAT, f), OUT(FLOAT, exponent)) {
  UINT d = bits - 0x3f2aaaabu /* 2/3 */;
  int e = int(d) >> 23;
  f = FROM_BITS(bits - (UINT(e) << 23)) - FROM_BITS(0x3f800000u /* 1 */);
  exponent = FROM_BITS(UINT(e) + 0x4b400000u) - FROM_BITS(0x4b400000u /* 12582912 */);
}

/// log(1 + f) = r + r_low for f in [-1/3, 1/3], good to 2^-26 (the polynomial of ls_log).
FUNCTION void log_polynomial(float f, OUT(FLOAT, r), OUT(FLOAT, r_low)) {
  FLOAT p = FROM_BITS(0xbe040655u /* -0.128930405 */);
  p = FMA(p, f, FROM_BITS(0x3e0f39dcu /* 0.139869153 */));
  p = FMA(p, f, FROM_BITS(0xbdf9871au /* -0.121839717 */));
  p = FMA(p, f, FROM_BITS(0x3e0f6a11u /* 0.140053049 */));
  p = FMA(p, f, FROM_BITS(0xbe2acef2u /* -0.166805059 */));
  p = FMA(p, f, FROM_BITS(0x3e4ce82fu /* 0.20010446 */));
  p = FMA(p, f, FROM_BITS(0xbe7fff78u /* -0.249997973 */));
  p = FMA(p, f, FROM_BITS(0x3eaaaa83u /* 0.333332151 */));
  p = FMA(p, f, FROM_BITS(0xbf000000u /* -0.5 */));
  FLOAT f2 = f * f;
  FLOAT w = f2 * p;
  FLOAT s = f + w;
  FLOAT s1 = s - f;
  r_low = w - s1;
  r = s;
}

/// log(1 + a + a_low) = high + low for a > -1 and tiny a_low (below an ulp of a), good to 2^-26 relative also near 0.
FUNCTION void log1p_parts(float a, float a_low, OUT(FLOAT, high), OUT(FLOAT, low)) {
  FLOAT u = a + FROM_BITS(0x3f800000u /* 1 */);
  UINT d = BITS(u) - 0x3f2aaaabu /* 2/3 */;
  int e = int(d) >> 23;
  int places = SELECT(e > 100, 100, e);  // beyond, 1 no longer counts
  FLOAT scale = FROM_BITS(UINT(127 - places) << 23);
  FLOAT exponent = FROM_BITS(UINT(e) + 0x4b400000u) - FROM_BITS(0x4b400000u /* 12582912 */);
  // 1 + f = (1 + a) / 2^e
  FLOAT one = scale - FROM_BITS(0x3f800000u /* 1 */);
  FLOAT scaled = FROM_BITS(SELECT(e == 0, BITS(a), BITS(a) - (UINT(e) << 23)));
  FLOAT f;
  FLOAT f_low;
  exact_sum(scaled, one, f, f_low);
  f_low = FMA(a_low, scale, f_low);
  exact_sum_ordered(f, f_low, f, f_low);
  FLOAT r;
  FLOAT r_low;
  log_polynomial(f, r, r_low);
  FLOAT change = FMA(-f, f_low, f_low);  // f_low / (1 + f), nearly
  change = FMA(f * f, f_low, change);
  r_low = r_low + change;
  FLOAT s = FMA(exponent, FROM_BITS(0x3f317200u /* 0.693145752 */), r);
  FLOAT s0 = FMA(exponent, FROM_BITS(0x3f317200u /* 0.693145752 */), -s);
  FLOAT s_low = s0 + r;
  FLOAT t = FMA(exponent, FROM_BITS(0x35bfbe8eu /* 1.42860677e-06 */), r_low);
  high = s;
  low = s_low + t;
}

/// log(2^exponent (1 + f)) = high + low for f in [-1/3, 1/3], good to 2^-42: by s = f / (2 + f), everything but the
/// terms from s^5 on in two floats.
FUNCTION void log_parts(float f, float exponent, OUT(FLOAT, high), OUT(FLOAT, low)) {
  FLOAT d = f + FROM_BITS(0x40000000u /* 2 */);
  FLOAT d1 = d - FROM_BITS(0x40000000u /* 2 */);
  FLOAT d_low = f - d1;
  FLOAT y = reciprocal_estimate(d);
  FLOAT s = f * y;
  FLOAT rest = FMA(-s, d, f);
  rest = FMA(-s, d_low, rest);
  FLOAT s_low = rest * y;
  FLOAT z = s * s;
  FLOAT z_low = FMA(s, s, -z);
  z_low = FMA(s + s, s_low, z_low);
  FLOAT p = FROM_BITS(0x3e454cc8u /* 0.19267571 */);
  p = FMA(p, z, FROM_BITS(0x3e635c43u /* 0.222031638 */));
  p = FMA(p, z, FROM_BITS(0x3e92492au /* 0.285714447 */));
  p = FMA(p, z, FROM_BITS(0x3ecccccdu /* 0.400000006 */));
  // z (2/3 + z p)
  FLOAT zp = z * p;
  FLOAT t;
  FLOAT t_low;
  exact_sum_ordered(FROM_BITS(0x3f2aaaabu /* 0.666666687 */), zp, t, t_low);
  t_low = t_low + FROM_BITS(0xb2aaaaabu /* -1.98682155e-08 */);
  FLOAT u = z * t;
  FLOAT u_low = FMA(z, t, -u);
  u_low = FMA(z, t_low, u_low);
  u_low = FMA(z_low, t, u_low);
  // 2 s + s u
  FLOAT w = s * u;
  FLOAT w_low = FMA(s, u, -w);
  w_low = FMA(s, u_low, w_low);
  w_low = FMA(s_low, u, w_low);
  FLOAT s2 = s + s;
  FLOAT v;
  FLOAT v_low;
  exact_sum_ordered(s2, w, v, v_low);
  v_low = v_low + FMA(FROM_BITS(0x40000000u /* 2 */), s_low, w_low);
  // exponent log(2), whose upper part is exact
  FLOAT e = exponent * FROM_BITS(0x3f317200u /* 0.693145752 */);
  FLOAT h;
  FLOAT h_low;
  exact_sum_ordered(e, v, h, h_low);
  h_low = h_low + FMA(exponent, FROM_BITS(0x35bfbe8eu /* 1.42860677e-06 */), v_low);
  exact_sum_ordered(h, h_low, high, low);
}

// --- exponentials ----------------------------------------------------------------------------------------------------

FUNCTION float ls_exp2(float x) {
  UINT bits = BITS(x);
  FLOAT t = x + FROM_BITS(0x4b400000u /* 12582912 */);
  FLOAT k = t - FROM_BITS(0x4b400000u /* 12582912 */);
  int n = int(BITS(t) - 0x4b400000u);
  FLOAT r = x - k;
  FLOAT q = FROM_BITS(0x3774bffbu /* 1.45882323e-05 */);
  q = FMA(q, r, FROM_BITS(0x39220504u /* 0.000154513924 */));
  q = FMA(q, r, FROM_BITS(0x3aaecfa0u /* 0.00133370236 */));
  q = FMA(q, r, FROM_BITS(0x3c1d9530u /* 0.0096180886 */));
  q = FMA(q, r, FROM_BITS(0x3d635839u /* 0.0555040576 */));
  q = FMA(q, r, FROM_BITS(0x3e75fdf0u /* 0.240226507 */));
  q = FMA(q, r, FROM_BITS(0x3f317218u /* 0.693147182 */));
  FLOAT y = FMA(q, r, FROM_BITS(0x3f800000u /* 1 */));
  UINT result = BITS(y) + (UINT(n) << 23);
  result = SELECT(bits >= 0xc2fc0000u /* -126 */, 0u, result);
  result = SELECT(int(bits) >= 0x43000000 /* 128 */, 0x7f800000u, result);
  result = SELECT((bits & 0x7fffffffu) > 0x7f800000u, 0x7fc00000u, result);
  return FROM_BITS(result);
}

FUNCTION float ls_expm1(float x) {
  UINT bits = BITS(x);
  UINT magnitude = bits & 0x7fffffffu;
  UINT most = SELECT(bits > 0x7fffffffu, 0x41a00000u /* 20 */, 0x42b20000u /* 89 */);
  FLOAT a = FROM_BITS(SELECT(magnitude > most, most, magnitude) | (bits & 0x80000000u));
  FLOAT high;
  FLOAT low;
  int n;
  exp_parts(a, FROM_BITS(0x80000000u), high, low, n);
  // Half of it, as 2^128 is no float.
  FLOAT scale = FROM_BITS(UINT(n + 126) << 23);
  FLOAT sum;
  FLOAT sum_low;
  exact_sum(high * scale, FROM_BITS(0xbf000000u /* -0.5 */), sum, sum_low);
  FLOAT half_result = sum + FMA(low, scale, sum_low);
  FLOAT doubled = half_result + half_result;
  UINT result = SELECT(magnitude < 0x33000000u /* 2^-25 */, bits, BITS(doubled));
  return FROM_BITS(SELECT(magnitude > 0x7f800000u, 0x7fc00000u, result));
}

// --- logarithms ------------------------------------------------------------------------------------------------------

/// `result`, or what logarithms are where x is no positive finite number.
FUNCTION UINT log_result(UINT bits, UINT result) {
  UINT checked = SELECT(bits >= 0x7f800000u, 0x7fc00000u, result);  // NaN and all negatives
  checked = SELECT(bits == 0x7f800000u, 0x7f800000u, checked);
  return SELECT((bits & 0x7fffffffu) < 0x00800000u, 0xff800000u, checked);
}

FUNCTION float ls_log2(float x) {
  FLOAT f;
  FLOAT exponent;
  split_near_one(BITS(x), f, exponent);
  FLOAT r;
  FLOAT r_low;
  log_polynomial(f, r, r_low);
  FLOAT h = r * FROM_BITS(0x3fb8aa3bu /* 1.44269502 */);
  FLOAT h_low = FMA(r, FROM_BITS(0x3fb8aa3bu /* 1.44269502 */), -h);
  h_low = FMA(r, FROM_BITS(0x32a57060u /* 1.92596303e-08 */), h_low);
  h_low = FMA(r_low, FROM_BITS(0x3fb8aa3bu /* 1.44269502 */), h_low);
  FLOAT s;
  FLOAT s_low;
  exact_sum_ordered(exponent, h, s, s_low);
  FLOAT z = s + (s_low + h_low);
  return FROM_BITS(log_result(BITS(x), BITS(z)));
}

FUNCTION float ls_log10(float x) {
  FLOAT f;
  FLOAT exponent;
  split_near_one(BITS(x), f, exponent);
  FLOAT r;
  FLOAT r_low;
  log_polynomial(f, r, r_low);
  FLOAT h = r * FROM_BITS(0x3ede5bd9u /* 0.434294492 */);
  FLOAT h_low = FMA(r, FROM_BITS(0x3ede5bd9u /* 0.434294492 */), -h);
  h_low = FMA(r, FROM_BITS(0xb22d91afu /* -1.010305e-08 */), h_low);
  h_low = FMA(r_low, FROM_BITS(0x3ede5bd9u /* 0.434294492 */), h_low);
  FLOAT e = exponent * FROM_BITS(0x3e9a2000u /* 0.301025391 */);  // exact
  FLOAT s;
  FLOAT s_low;
  exact_sum_ordered(e, h, s, s_low);
  FLOAT t = FMA(exponent, FROM_BITS(0x369a84fcu /* 4.60504405e-06 */), h_low);
  FLOAT z = s + (s_low + t);
  return FROM_BITS(log_result(BITS(x), BITS(z)));
}

FUNCTION float ls_log1p(float x) {
  UINT bits = BITS(x);
  UINT magnitude = bits & 0x7fffffffu;
  FLOAT high;
  FLOAT low;
  log1p_parts(x, FROM_BITS(0u), high, low);
  FLOAT z = high + low;
  UINT negative = 0u - (bits >> 31);
  UINT result = choose(mask_below(magnitude, 0x33000000u /* 2^-25 */), bits, BITS(z));
  result = choose(negative & mask_below(0x3f7fffffu, magnitude), 0xff800000u, result);
  result = choose(mask_below(0x7f7fffffu, magnitude), 0x7f800000u, result);
  result = choose(negative & mask_below(0x3f800000u, magnitude), 0x7fc00000u, result);
  return FROM_BITS(choose(mask_below(0x7f800000u, magnitude), 0x7fc00000u, result));
}

/// log(e^a + e^b) = m + log1p(e^-d), m the larger and d = |a - b|. Of equal infinities the infinity.
FUNCTION float ls_logaddexp(float a, float b) {
  FLOAT larger = SELECT(a < b, b, a);
  FLOAT smaller = SELECT(a < b, a, b);
  FLOAT d = smaller - larger;
  FLOAT d1 = d + larger;
  FLOAT d_low = smaller - d1;
  UINT magnitude = BITS(d) & 0x7fffffffu;
  UINT near_low = SELECT(magnitude < 0x42000000u /* 32 */, BITS(d_low), 0u);
  FLOAT e_high;
  FLOAT e_low;
  int n;
  exp_parts_wide(FROM_BITS(SELECT(magnitude < 0x42ae0000u /* 87 */, BITS(d), 0xc2ae0000u)), FROM_BITS(near_low), e_high,
                 e_low, n);
  // e_low would be subnormal far away, and does not count there.
  FLOAT scale = FROM_BITS(SELECT(magnitude < 0x42ae0000u /* 87 */, UINT(n + 127) << 23, 0u));
  FLOAT low_scale = FROM_BITS(SELECT(magnitude < 0x42000000u /* 32 */, BITS(scale), 0u));
  FLOAT high;
  FLOAT low;
  log1p_parts(e_high * scale, e_low * low_scale, high, low);
  FLOAT s;
  FLOAT s_low;
  exact_sum(larger, high, s, s_low);
  FLOAT sum = s + (s_low + low);
  UINT result = SELECT((BITS(larger) & 0x7fffffffu) == 0x7f800000u, BITS(larger), BITS(sum));
  result = SELECT((BITS(a) & 0x7fffffffu) > 0x7f800000u, 0x7fc00000u, result);
  return FROM_BITS(SELECT((BITS(b) & 0x7fffffffu) > 0x7f800000u, 0x7fc00000u, result));
}

// --- pow and hypot ---------------------------------------------------------------------------------------------------

/// e^(b log|a|), the logarithm and the product in two floats. Special values as in C99's Annex F.
FUNCTION float ls_pow(float a, float b) {
  UINT abs_a = BITS(a) & 0x7fffffffu;
  UINT abs_b = BITS(b) & 0x7fffffffu;
  FLOAT f;
  FLOAT exponent;
  split_near_one(abs_a, f, exponent);
  FLOAT l;
  FLOAT l_low;
  log_parts(f, exponent, l, l_low);
  // Beyond 2^33 the power of any a but 1 is 0 or infinite.
  FLOAT y = FROM_BITS(SELECT(abs_b > 0x50000000u /* 2^33 */, 0x50000000u, abs_b) | (BITS(b) & 0x80000000u));
  FLOAT p = y * l;
  FLOAT p_low = FMA(y, l, -p);
  p_low = FMA(y, l_low, p_low);
  UINT abs_p = BITS(p) & 0x7fffffffu;
  UINT far = mask_below(0x42d20000u /* 105 */, abs_p);
  FLOAT x = FROM_BITS(choose(far, 0x42d20000u | (BITS(p) & 0x80000000u), BITS(p)));
  FLOAT x_low = FROM_BITS(BITS(p_low) & ~far);
  FLOAT high;
  FLOAT low;
  int n;
  exp_parts_wide(x, x_low, high, low, n);
  FLOAT e = high + low;
  int biased = int(BITS(e) >> 23) + n;
  UINT result = BITS(e) + (UINT(n) << 23);
  result = choose(0u - (UINT(254 - biased) >> 31), 0x7f800000u, result);
  result = result & ~(0u - (UINT(biased - 1) >> 31));
  // |a| 0 or infinite, b infinite
  UINT zero_a = mask_below(abs_a, 0x00800000u);
  UINT infinite_a = mask_below(0x7f7fffffu, abs_a);
  UINT infinite_b = mask_below(0x7f7fffffu, abs_b);
  UINT shrinks = mask_below(abs_a, 0x3f800000u) ^ (0u - (BITS(b) >> 31));
  result = choose(zero_a | infinite_a | infinite_b, 0x7f800000u & ~shrinks, result);
  UINT one_a = ~mask_unequal(abs_a, 0x3f800000u);
  result = choose(one_a, 0x3f800000u, result);
  // Negative a: b's parity decides the sign, and a fraction of b gives NaN.
  FLOAT half_b = FROM_BITS(0x3f000000u /* 0.5 */) * FROM_BITS(abs_b);
  UINT fraction = mask_unequal(BITS(round_magnitude(FROM_BITS(abs_b))), abs_b);
  UINT odd = mask_unequal(BITS(round_magnitude(half_b)), BITS(half_b)) & ~fraction;
  UINT negative = 0u - (BITS(a) >> 31);
  result = result | (negative & odd & 0x80000000u);
  UINT nan = negative & fraction & ~zero_a & ~infinite_a;
  nan = nan | mask_below(0x7f800000u, abs_a) | mask_below(0x7f800000u, abs_b);
  result = choose(nan, 0x7fc00000u, result);
  return FROM_BITS(choose((one_a & ~negative) | mask_below(abs_b, 0x00800000u), 0x3f800000u, result));
}

/// On significands: the larger one is brought to [1, 2), a smaller one below 2^-30 of it does not count.
FUNCTION float ls_hypot(float a, float b) {
  UINT abs_a = BITS(a) & 0x7fffffffu;
  UINT abs_b = BITS(b) & 0x7fffffffu;
  UINT large = SELECT(abs_a > abs_b, abs_a, abs_b);
  UINT small = SELECT(abs_a > abs_b, abs_b, abs_a);
  UINT exponent = (large & 0x7f800000u) - 0x3f800000u;
  FLOAT x = FROM_BITS(large - exponent);
  UINT counts = SELECT(large - small > 0x0f000000u, 0u, small - exponent);
  FLOAT y = FROM_BITS(SELECT(small < 0x00800000u, 0u, counts));
  FLOAT xx = x * x;
  FLOAT xx_low = FMA(x, x, -xx);
  FLOAT yy = y * y;
  FLOAT yy_low = FMA(y, y, -yy);
  FLOAT s;
  FLOAT s_low;
  exact_sum_ordered(xx, yy, s, s_low);
  s_low = s_low + (xx_low + yy_low);
  FLOAT root = SQRT(s);
  FLOAT rest = FMA(-root, root, s) + s_low;
  FLOAT half_root = FROM_BITS(0x3f000000u /* 0.5 */) * reciprocal_estimate(root);
  FLOAT z = FMA(rest, half_root, root);
  int biased = int(BITS(z) >> 23) + (int(exponent) >> 23);
  UINT result = SELECT(biased > 254, 0x7f800000u, BITS(z) + exponent);
  result = SELECT(small < 0x00800000u, large, result);
  result = SELECT(large > 0x7f800000u, 0x7fc00000u, result);
  result = SELECT(abs_a == 0x7f800000u, 0x7f800000u, result);
  return FROM_BITS(SELECT(abs_b == 0x7f800000u, 0x7f800000u, result));
}
