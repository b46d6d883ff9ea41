// f32 erfc, erfinv, lgamma and digamma. In the kernel subset, rules and names as in math.h.

/// erfc(a) = e^(-a^2) P(t) / (a + 1.5), t = (a - 1.5) / (a + 1.5), for a = |x|, all but the higher terms of P in two
/// floats as in ls_gelu; 2 - erfc(a) for negative x.
FUNCTION float ls_erfc(float x) {
  UINT bits = BITS(x);
  UINT magnitude = bits & 0x7fffffffu;
  FLOAT a =
      FROM_BITS(choose(mask_below(0x41160000u /* 9.375: beyond is nothing */, magnitude), 0x41160000u, magnitude));
  FLOAT s = a * a;
  FLOAT s_low = FMA(a, a, -s);
  FLOAT high;
  FLOAT low;
  int n;
  exp_parts_wide(-s, -s_low, high, low, n);
  // y + y_low = 1 / (a + 1.5)
  FLOAT d;
  FLOAT d_low;
  exact_sum(a, FROM_BITS(0x3fc00000u /* 1.5 */), d, d_low);
  FLOAT y = reciprocal_estimate(d);
  FLOAT e = FMA(-d, y, FROM_BITS(0x3f800000u /* 1 */));
  e = FMA(-d_low, y, e);
  FLOAT y_low = y * e;
  // t + t_low = (a - 1.5) / (a + 1.5)
  FLOAT u;
  FLOAT u_low;
  exact_sum(a, FROM_BITS(0xbfc00000u /* -1.5 */), u, u_low);
  FLOAT t0 = u * y;
  FLOAT r = FMA(-d, t0, u);
  r = FMA(-d_low, t0, r) + u_low;
  FLOAT t = FMA(r, y, t0);
  FLOAT t1 = t0 - t;
  FLOAT t_low = FMA(r, y, t1);
  // P(t) = c0 + t (c1 + t q(t)), the two last steps in two floats
  FLOAT q = FROM_BITS(0xb8904716u /* -6.87969587e-05 */);
  q = FMA(q, t, FROM_BITS(0xb9690a8cu /* -0.000222245406 */));
  q = FMA(q, t, FROM_BITS(0xb89923afu /* -7.30225511e-05 */));
  q = FMA(q, t, FROM_BITS(0x3a60f746u /* 0.000858176849 */));
  q = FMA(q, t, FROM_BITS(0x3ae88922u /* 0.00177410641 */));
  q = FMA(q, t, FROM_BITS(0xba527c1cu /* -0.0008029358 */));
  q = FMA(q, t, FROM_BITS(0xbc1afd89u /* -0.00945986155 */));
  q = FMA(q, t, FROM_BITS(0xbc050c76u /* -0.0081206467 */));
  q = FMA(q, t, FROM_BITS(0x3d43a862u /* 0.0477680042 */));
  q = FMA(q, t, FROM_BITS(0x3d9adfa0u /* 0.0756218433 */));
  FLOAT c1 = FROM_BITS(0xbf020275u /* -0.507849991 */);
  FLOAT p = FMA(q, t, c1);
  FLOAT p1 = c1 - p;
  FLOAT p_low = FMA(q, t, p1);
  FLOAT w = p * t;
  FLOAT w_low = FMA(p, t, -w);
  w_low = FMA(p_low, t, w_low) + FROM_BITS(0xb0df0e48u /* -1.62294445e-09 */);
  w_low = FMA(p, t_low, w_low);
  FLOAT g;
  FLOAT g_low;
  exact_sum_ordered(FROM_BITS(0x3f76fa44u /* 0.96475625 */), w, g, g_low);
  g_low = g_low + w_low;
  // (high + low) (y + y_low) (g + g_low)
  FLOAT h = y * g;
  FLOAT h_low = FMA(y, g, -h);
  h_low = FMA(y, g_low, h_low);
  h_low = FMA(y_low, g, h_low);
  FLOAT f = high * h;
  FLOAT f_low = FMA(high, h, -f);
  f_low = FMA(low, h, f_low);
  f_low = FMA(high, h_low, f_low);
  FLOAT tail = f + f_low;
  int biased = int(BITS(tail) >> 23) + n;
  UINT positive = (BITS(tail) + (UINT(n) << 23)) & ~(0u - (UINT(biased - 1) >> 31));
  positive = positive & ~mask_below(0x41160000u, magnitude);
  int m = SELECT(n < -60, -60, n);  // beside 2, smaller ones do not count, and might be subnormal
  FLOAT scale = FROM_BITS(UINT(m + 127) << 23);
  FLOAT upper = FMA(-f, scale, FROM_BITS(0x40000000u /* 2 */));
  FLOAT rest = FMA(-f, scale, FROM_BITS(0x40000000u /* 2 */) - upper);
  FLOAT negative = upper + FMA(-f_low, scale, rest);
  UINT result = choose(0u - (bits >> 31), BITS(negative), positive);
  return FROM_BITS(choose(mask_below(0x7f800000u, magnitude), 0x7fc00000u, result));
}

/// a P(w), w = -log(1 - a^2): a polynomial in w below 5, in sqrt(w) above.
FUNCTION float ls_erfinv(float x) {
  UINT magnitude = BITS(x) & 0x7fffffffu;
  FLOAT a = FROM_BITS(choose(mask_below(0x3f7fffffu, magnitude), 0x3f7fffffu, magnitude));
  FLOAT square = a * a;
  FLOAT square_low = FMA(a, a, -square);
  FLOAT high;
  FLOAT low;
  log1p_parts(-square, -square_low, high, low);
  FLOAT w = float_abs(high + low);
  FLOAT w_low = -(high + w) - low;
  UINT far = mask_below(0x409fffffu /* 5 */, BITS(w));
  FLOAT root;
  FLOAT root_low;
  square_root_parts(FROM_BITS(choose(far, BITS(w), 0x40a00000u /* 5 */)), FROM_BITS(BITS(w_low) & far), root, root_low);
  FLOAT t = w - FROM_BITS(0x40200000u /* 2.5 */);
  FLOAT v = root - FROM_BITS(0x40400000u /* 3 */);
  FLOAT pt = FROM_BITS(0x2f099dd9u /* 1.25161562e-10 */);
  pt = FMA(pt, t, FROM_BITS(0x2ffe598fu /* 4.62659661e-10 */));
  pt = FMA(pt, t, FROM_BITS(0xb23a6e1au /* -1.08516591e-08 */));
  pt = FMA(pt, t, FROM_BITS(0x3289f258u /* 1.60591043e-08 */));
  pt = FMA(pt, t, FROM_BITS(0x35006378u /* 4.78284619e-07 */));
  pt = FMA(pt, t, FROM_BITS(0xb665c5b4u /* -3.42387375e-06 */));
  pt = FMA(pt, t, FROM_BITS(0xb6a78de0u /* -4.99350426e-06 */));
  pt = FMA(pt, t, FROM_BITS(0x3964dc76u /* 0.000218259025 */));
  pt = FMA(pt, t, FROM_BITS(0xbaa43215u /* -0.00125271326 */));
  pt = FMA(pt, t, FROM_BITS(0xbb88e1eau /* -0.00417732168 */));
  FLOAT pv = FROM_BITS(0xb7f656eeu /* -2.9365965e-05 */);
  pv = FMA(pv, v, FROM_BITS(0x3928b3e5u /* 0.000160887445 */));
  pv = FMA(pv, v, FROM_BITS(0xb991d0b3u /* -0.000278120482 */));
  pv = FMA(pv, v, FROM_BITS(0xb8fd0194u /* -0.000120642741 */));
  pv = FMA(pv, v, FROM_BITS(0x3ac16ebcu /* 0.00147577329 */));
  pv = FMA(pv, v, FROM_BITS(0xbb69bf06u /* -0.00356668374 */));
  pv = FMA(pv, v, FROM_BITS(0x3bba5dc1u /* 0.00568744587 */));
  pv = FMA(pv, v, FROM_BITS(0xbbfa7127u /* -0.00764288334 */));
  pv = FMA(pv, v, FROM_BITS(0x3c1ac09au /* 0.00944533385 */));
  FLOAT q = FROM_BITS(choose(far, BITS(pv), BITS(pt)));
  FLOAT step = FROM_BITS(choose(far, BITS(v), BITS(t)));
  FLOAT c1 = FROM_BITS(choose(far, 0x3f8036e5u /* 1.00167525 */, 0x3e7c8f45u /* 0.24664028 */));
  FLOAT p = FMA(q, step, c1);
  FLOAT p1 = c1 - p;
  FLOAT p_low = FMA(q, step, p1);
  FLOAT step_low = FROM_BITS(choose(far, BITS(root_low), BITS(w_low)));
  FLOAT c = FROM_BITS(choose(far, 0x40354f7eu /* 2.83297682 */, 0x3fc02e2eu /* 1.50140929 */));
  FLOAT c_low = FROM_BITS(choose(far, 0xb29090bcu /* -1.68296239e-08 */, 0x337f6dcau /* 5.94716667e-08 */));
  FLOAT z = FMA(p, step, c);
  FLOAT z1 = c - z;
  FLOAT z_low = FMA(p, step, z1) + c_low;
  z_low = FMA(p, step_low, z_low);
  z_low = FMA(p_low, step, z_low);
  // Tiny ones are scaled up by 2^64, lest the second product be subnormal.
  UINT up = mask_below(magnitude, 0x21800000u /* 2^-60 */) & 0x20000000u;
  FLOAT b = FROM_BITS(BITS(a) + up);
  FLOAT value = FMA(b, z, b * z_low);
  UINT result = (BITS(value) - up) & ~mask_below(magnitude, 0x00800000u);
  result = choose(~mask_unequal(magnitude, 0x3f800000u /* 1 */), 0x7f800000u, result) | (BITS(x) & 0x80000000u);
  return FROM_BITS(choose(mask_below(0x3f800000u, magnitude), 0x7fc00000u, result));
}

// --- the gamma family ------------------------------------------------------------------------------------------------

/// sin(pi r) and cos(pi r) for r in [0, 1/2].
FUNCTION void sin_cos_pi(float r, OUT(FLOAT, sine), OUT(FLOAT, cosine)) {
  UINT swap = mask_below(0x3e800000u /* 0.25 */, BITS(r));
  FLOAT s = FROM_BITS(choose(swap, BITS(FROM_BITS(0x3f000000u /* 0.5 */) - r), BITS(r)));
  FLOAT y = s * FROM_BITS(0x40490fdbu /* 3.14159274 */);
  FLOAT y_low = FMA(s, FROM_BITS(0x40490fdbu /* 3.14159274 */), -y);
  y_low = FMA(s, FROM_BITS(0xb3bbbd2eu /* -8.74227766e-08 */), y_low);
  UINT a = BITS(sin_polynomial(y, y_low));
  UINT b = BITS(cos_polynomial(y, y_low));
  sine = FROM_BITS(choose(swap, b, a));
  cosine = FROM_BITS(choose(swap, a, b));
}

/// The logarithm of the positive normal number with these bits.
FUNCTION float log_of_parts(UINT bits) {
  FLOAT f;
  FLOAT exponent;
  split_near_one(bits, f, exponent);
  FLOAT r;
  FLOAT r_low;
  log_polynomial(f, r, r_low);
  FLOAT s;
  FLOAT s_low;
  exact_sum_ordered(exponent * FROM_BITS(0x3f317200u /* 0.693145752 */), r, s, s_low);
  FLOAT low = s_low + FMA(exponent, FROM_BITS(0x35bfbe8eu /* 1.42860677e-06 */), r_low);
  FLOAT result = s + low;
  return result;
}

/// log |Gamma(x)|: between 1 and 2.5 a polynomial between its zeros, which by Gamma(x) = Gamma(x + 1) / x serves below
/// 1 too; Stirling's series above; the reflection formula for negative x, where near the zeros the error is that of the
/// terms that cancel.
FUNCTION float ls_lgamma(float x) {
  UINT magnitude = BITS(x) & 0x7fffffffu;
  UINT negative = 0u - (BITS(x) >> 31);
  FLOAT a = FROM_BITS(choose(mask_below(0x7c44af8du /* 4.08500311e+36, the last with a finite result */, magnitude),
                             0x7c44af8du, magnitude));
  UINT below_1 = mask_below(magnitude, 0x3f800000u /* 1 */);
  UINT stirling = mask_below(0x401fffffu /* 2.5 */, magnitude);
  FLOAT f;
  FLOAT exponent;
  split_near_one(choose(mask_below(magnitude, 0x00800000u), 0x3f800000u, BITS(a)), f, exponent);
  FLOAT l;
  FLOAT l_low;
  log_parts(f, exponent, l, l_low);
  // (z - 1) (z - 2) Q(z), z = a, or a + 1 below 1
  FLOAT from_1 = a - FROM_BITS(0x3f800000u /* 1 */ & ~below_1);
  FLOAT from_2 = a - FROM_BITS(choose(below_1, 0x3f800000u /* 1 */, 0x40000000u /* 2 */));
  FLOAT t = a - FROM_BITS(choose(below_1, 0x3f400000u /* 0.75 */, 0x3fe00000u /* 1.75 */));
  FLOAT p = FROM_BITS(0x389e3f6au /* 7.54583889e-05 */);
  p = FMA(p, t, FROM_BITS(0xb90d7b66u /* -0.000134927774 */));
  p = FMA(p, t, FROM_BITS(0x38fbfc0eu /* 0.000120155615 */));
  p = FMA(p, t, FROM_BITS(0xb97c94beu /* -0.000240880036 */));
  p = FMA(p, t, FROM_BITS(0x3a11ba03u /* 0.000555902894 */));
  p = FMA(p, t, FROM_BITS(0xba8cda46u /* -0.00107462029 */));
  p = FMA(p, t, FROM_BITS(0x3b093200u /* 0.00209343433 */));
  p = FMA(p, t, FROM_BITS(0xbb8a6a34u /* -0.00422408618 */));
  p = FMA(p, t, FROM_BITS(0x3c0fcb88u /* 0.00877655298 */));
  p = FMA(p, t, FROM_BITS(0xbc9c174au /* -0.0190540738 */));
  p = FMA(p, t, FROM_BITS(0x3d365b11u /* 0.0445204414 */));
  p = FMA(p, t, FROM_BITS(0xbdf4b2c3u /* -0.119481586 */));
  FLOAT c = FROM_BITS(0x3ee678a9u /* 0.450139314 */);
  FLOAT g = FMA(p, t, c);
  FLOAT g_rest = c - g;
  FLOAT g_low = FMA(p, t, g_rest) + FROM_BITS(0xb0f3df72u /* -1.7744084e-09 */);
  FLOAT square = from_1 * from_2;
  FLOAT square_low = FMA(from_1, from_2, -square);
  FLOAT near_value = square * g;
  FLOAT near_low = FMA(square, g, -near_value);
  near_low = FMA(square, g_low, near_low);
  near_low = FMA(square_low, g, near_low);
  FLOAT first;
  FLOAT first_low;
  exact_sum(-FROM_BITS(BITS(l) & below_1), near_value, first, first_low);
  first_low = first_low + (near_low - FROM_BITS(BITS(l_low) & below_1));
  // (a - 1/2) (log a - 1) + log(2 pi) / 2 - 1/2 + S(1 / a^2) / a
  FLOAT b = FROM_BITS(choose(stirling, BITS(a), 0x40200000u /* 2.5 */));
  FLOAT y = reciprocal_estimate(b);
  FLOAT z = y * y;
  FLOAT q = FROM_BITS(0x3a69936cu /* 0.00089102122 */);
  q = FMA(q, z, FROM_BITS(0xba37625au /* -0.000699555152 */));
  q = FMA(q, z, FROM_BITS(0x3a537343u /* 0.000806618656 */));
  q = FMA(q, z, FROM_BITS(0xbb361312u /* -0.00277823629 */));
  q = FMA(q, z, FROM_BITS(0x3daaaaabu /* 0.0833333358 */));
  FLOAT h;
  FLOAT h_low;
  exact_sum_ordered(b, FROM_BITS(0xbf000000u /* -0.5 */), h, h_low);
  FLOAT k;
  FLOAT k_low;
  exact_sum(l, FROM_BITS(0xbf800000u /* -1 */), k, k_low);
  k_low = k_low + l_low;
  FLOAT m = h * k;
  FLOAT m_low = FMA(h, k, -m);
  m_low = FMA(h, k_low, m_low);
  m_low = FMA(h_low, k, m_low);
  FLOAT second;
  FLOAT second_low;
  exact_sum(m, FROM_BITS(0x3ed67f1du /* 0.418938547 */), second, second_low);
  second_low = second_low + (m_low + FMA(q, y, FROM_BITS(0xb2736829u /* -1.41681449e-08 */)));
  FLOAT value = FROM_BITS(choose(stirling, BITS(second), BITS(first)));
  FLOAT value_low = FROM_BITS(choose(stirling, BITS(second_low), BITS(first_low)));
  FLOAT sum = value + value_low;
  // log(pi / (a |sin(pi a)|)) - lgamma(a)
  FLOAT distance = a - round_magnitude(a);
  FLOAT sine;
  FLOAT cosine;
  sin_cos_pi(float_abs(distance), sine, cosine);
  UINT reflect = negative & mask_below(0x30800000u /* 2^-30 */, magnitude) &
                 mask_below(magnitude, 0x4b000000u /* 2^23: whole from here on */);
  FLOAT product =
      FROM_BITS(choose(reflect, BITS(sine), 0x3f800000u)) * FROM_BITS(choose(reflect, BITS(a), 0x3f800000u));
  UINT pole = mask_below(BITS(product), 0x00800000u);
  FLOAT log_product = log_of_parts(choose(pole, 0x3f800000u, BITS(product)));
  FLOAT w;
  FLOAT w_low;
  exact_sum(FROM_BITS(0x3f928682u /* 1.14472985 */), -log_product, w, w_low);
  FLOAT reflected;
  FLOAT reflected_low;
  exact_sum(w, -value, reflected, reflected_low);
  FLOAT below_zero = reflected + (reflected_low + (w_low - value_low));
  UINT result = choose(reflect, BITS(below_zero), BITS(sum));
  pole = pole | (negative & mask_below(0x4affffffu, magnitude)) | mask_below(magnitude, 0x00800000u);
  pole = pole | mask_below(0x7c44af8du, magnitude);
  result = choose(pole, 0x7f800000u, result);
  return FROM_BITS(choose(mask_below(0x7f800000u, magnitude), 0x7fc00000u, result));
}

/// (x - x0) P(x) between 1 and 2, where x0 is the zero; by digamma(x) = digamma(x + 1) - 1 / x below 1; the asymptotic
/// series above 2; by reflection for negative x.
FUNCTION float ls_digamma(float x) {
  UINT magnitude = BITS(x) & 0x7fffffffu;
  UINT negative = 0u - (BITS(x) >> 31);
  FLOAT a = FROM_BITS(magnitude);
  FLOAT mirrored = FROM_BITS(0x3f800000u /* 1 */) + a;
  FLOAT b = FROM_BITS(choose(negative, BITS(mirrored), magnitude));
  UINT below_1 = mask_below(BITS(b), 0x3f800000u);
  UINT series = mask_below(0x3fffffffu /* 2 */, BITS(b));
  // Near the zero
  FLOAT middle = FROM_BITS(choose(below_1, 0x3f000000u /* 0.5 */, 0x3fc00000u /* 1.5 */));
  FLOAT t = b - middle;
  FLOAT p = FROM_BITS(0x3c1a737cu /* 0.00942694768 */);
  p = FMA(p, t, FROM_BITS(0xbc841482u /* -0.0161230601 */));
  p = FMA(p, t, FROM_BITS(0x3c947516u /* 0.0181222372 */));
  p = FMA(p, t, FROM_BITS(0xbcd47a03u /* -0.025937086 */));
  p = FMA(p, t, FROM_BITS(0x3d2650dau /* 0.0406044498 */));
  p = FMA(p, t, FROM_BITS(0xbd7e0e69u /* -0.0620254613 */));
  p = FMA(p, t, FROM_BITS(0x3dc29491u /* 0.0950099304 */));
  p = FMA(p, t, FROM_BITS(0xbe17f680u /* -0.14840126 */));
  p = FMA(p, t, FROM_BITS(0x3e765087u /* 0.240541562 */));
  p = FMA(p, t, FROM_BITS(0xbed8e5b2u /* -0.423627436 */));
  // x0 - 1 and x0, in two floats
  FLOAT zero = FROM_BITS(choose(below_1, 0x3eec5b0cu /* 0.461632133 */, 0x3fbb16c3u /* 1.46163213 */));
  FLOAT zero_low = FROM_BITS(choose(below_1, 0x3255af90u /* 1.24381501e-08 */, 0x3255af90u /* 1.24381501e-08 */));
  FLOAT d = (b - zero) - zero_low;
  FLOAT c0 = FROM_BITS(0x3f737866u /* 0.951055884 */);
  FLOAT p_high = FMA(p, t, c0);
  FLOAT p_rest = c0 - p_high;
  FLOAT p_low = FMA(p, t, p_rest);
  FLOAT near_value = d * p_high;
  FLOAT near_low = FMA(d, p_high, -near_value);
  near_low = FMA(d, p_low, near_low);
  // Its reciprocal serves both the recurrence and the series.
  UINT tiny = mask_below(magnitude, 0x32000000u /* 2^-27: digamma(x) is -1 / x */);
  UINT base = choose(tiny, magnitude, BITS(b));
  FLOAT c = FROM_BITS(choose(mask_below(base, 0x00800000u), 0x3f800000u, base));
  UINT scale = 0x7f000000u - (choose(mask_below(0x5d800000u /* 2^60 */, BITS(c)), 0x5d800000u, BITS(c)) & 0x7f800000u);
  FLOAT significand = FROM_BITS((BITS(c) & 0x007fffffu) | 0x3f800000u);
  FLOAT y0 = reciprocal_estimate(significand);
  FLOAT e = FMA(-significand, y0, FROM_BITS(0x3f800000u /* 1 */));
  FLOAT y1 = FMA(y0, e, y0);
  FLOAT y = y1 * FROM_BITS(scale);
  FLOAT rest = FMA(-significand, y1, FROM_BITS(0x3f800000u /* 1 */)) * y0 * FROM_BITS(scale);
  FLOAT first;
  FLOAT first_low;
  exact_sum(FROM_BITS((BITS(y) ^ 0x80000000u) & below_1), near_value, first, first_low);
  first_low = first_low + (near_low - FROM_BITS(BITS(rest) & below_1));
  // log b - 1 / (2 b) - S(1 / b^2) / b^2
  FLOAT f;
  FLOAT exponent;
  split_near_one(BITS(c), f, exponent);
  FLOAT r;
  FLOAT r_low;
  log_polynomial(f, r, r_low);
  FLOAT s;
  FLOAT s_low;
  exact_sum_ordered(exponent * FROM_BITS(0x3f317200u /* 0.693145752 */), r, s, s_low);
  FLOAT ys = FROM_BITS(choose(series, BITS(y), 0u));
  FLOAT z = ys * ys;
  FLOAT q = FROM_BITS(0x3b2207a7u /* 0.00247237994 */);
  q = FMA(q, z, FROM_BITS(0xbb5f17d6u /* -0.00340413069 */));
  q = FMA(q, z, FROM_BITS(0x3b803884u /* 0.00391298719 */));
  q = FMA(q, z, FROM_BITS(0xbc08826du /* -0.00833187718 */));
  q = FMA(q, z, FROM_BITS(0x3daaaaaau /* 0.0833333284 */));
  FLOAT tail = FMA(exponent, FROM_BITS(0x35bfbe8eu /* 1.42860677e-06 */), r_low);
  tail = FMA(-z, q, tail);
  FLOAT second;
  FLOAT second_low;
  exact_sum(s, FROM_BITS(0xbf000000u /* -0.5 */) * ys, second, second_low);
  second_low = second_low + (s_low + tail);
  FLOAT value = FROM_BITS(choose(series, BITS(second), BITS(first)));
  FLOAT value_low = FROM_BITS(choose(series, BITS(second_low), BITS(first_low)));
  // pi / tan(pi a), which is -pi / tan(pi x)
  FLOAT distance = a - round_magnitude(a);
  FLOAT sine;
  FLOAT cosine;
  sin_cos_pi(float_abs(distance), sine, cosine);
  UINT pole = mask_below(BITS(sine), 0x00800000u);
  FLOAT divisor = FROM_BITS(choose(pole | tiny, 0x3f800000u, BITS(sine)));
  FLOAT inverse = reciprocal_estimate(divisor);
  FLOAT ie = FMA(-divisor, inverse, FROM_BITS(0x3f800000u /* 1 */));
  inverse = FMA(inverse, ie, inverse);
  FLOAT ratio = cosine * inverse;
  FLOAT cotangent = FROM_BITS(BITS(ratio * FROM_BITS(0x40490fdbu /* 3.14159274 */)) ^ (BITS(distance) & 0x80000000u));
  FLOAT w;
  FLOAT w_low;
  exact_sum(value, FROM_BITS(BITS(cotangent) & negative), w, w_low);
  FLOAT sum = w + (w_low + value_low);
  UINT result = choose(tiny, BITS(y) ^ (~negative & 0x80000000u), BITS(sum));
  result = choose(mask_below(0x7f7fffffu, magnitude), 0x7f800000u, result);
  UINT nan = negative & (mask_below(0x7f7fffffu, magnitude) | (pole & ~tiny));
  result = choose(nan | mask_below(0x7f800000u, magnitude), 0x7fc00000u, result);
  result = choose(mask_below(magnitude, 0x00800000u), 0xff800000u ^ (negative & 0x80000000u), result);
  return FROM_BITS(result);
}
