// The f32 elementary functions, the exact helpers of ops.def, and the 16-bit formats. In the kernel subset: see
// prelude.h for how to include this text. docs/numerics.md lists the measured error of every function.
//
// Only +, -, *, fma and 32-bit integer operations, so that every device gives the same bits. Constants are bit
// patterns, selects work on integers, NaN results are the one quiet NaN. Rules of docs/numerics.md section 1:
//   * operands are canonical: no subnormals (other than to be read as zero, where that is simple);
//   * no subnormal takes part in a result, hence flushing devices agree; a result whose magnitude bits are
//     <= 0x00800000 may be anything of that size, and becomes the zero of its sign in canonical_f32.
// Names: x_low is what has to be added to x for more precision than one float holds.
// What stops vectorisation, and so is not here: `||`, chains of selects on small integers, and selects one arm of
// which is worth a branch.

/// A result of arithmetic as it is stored: the one NaN, and the zero of its sign where the magnitude is not above the
/// smallest normal. Applied once per instruction by every backend. Masks instead of selects: GCC would fold selects
/// into those at the end of the function before, and then find branches that it cannot vectorise.
FUNCTION float canonical_f32(float x) {
  UINT bits = BITS(x);
  UINT magnitude = bits & 0x7fffffffu;
  UINT small = UINT(int(magnitude - 0x00800001u) >> 31);
  UINT nan = UINT(int(0x7f800000u - magnitude) >> 31);
  UINT result = bits & ~(small & 0x7fffffffu);
  return FROM_BITS((result & ~nan) | (0x7fc00000u & nan));
}
FUNCTION float canonical(float x) {
  return canonical_f32(x);
}

/// An operand as it is read: subnormals are the zero of their sign; NaN keeps its bits.
FUNCTION float operand_f32(float x) {
  UINT bits = BITS(x);
  return FROM_BITS(SELECT((bits & 0x7fffffffu) < 0x00800000u, bits & 0x80000000u, bits));
}

/// Ordering key for maximum, sort and the like: NaN on top; zeros and subnormals have the key of +0.
FUNCTION int max_key(float x) {
  UINT bits = BITS(x);
  UINT magnitude = bits & 0x7fffffffu;
  int key = SELECT(bits > 0x7fffffffu, int(~magnitude), int(magnitude));
  key = SELECT(magnitude < 0x00800000u, 0, key);
  return SELECT(magnitude > 0x7f800000u, int(0x7fffffffu), key);
}

/// The same order with NaN at the bottom, so that NaN wins a minimum.
FUNCTION int min_key(float x) {
  UINT magnitude = BITS(x) & 0x7fffffffu;
  return SELECT(magnitude > 0x7f800000u, int(0x80000000u), max_key(x));
}

/// The larger (smaller) one in that order; x of two with the same key.
FUNCTION float larger(float x, float y) {
  return SELECT(max_key(y) > max_key(x), y, x);
}
FUNCTION float smaller(float x, float y) {
  return SELECT(min_key(y) < min_key(x), y, x);
}

FUNCTION float float_abs(float x) {
  return FROM_BITS(BITS(x) & 0x7fffffffu);
}
FUNCTION float float_sqrt(float x) {
  return SQRT(x);
}

/// |x| rounded to an integer, halves to even: adding 2^23 leaves no room for a fraction.
FUNCTION float round_magnitude(float magnitude) {
  FLOAT shifted = magnitude + FROM_BITS(0x4b000000u /* 8388608 */);
  FLOAT rounded = shifted - FROM_BITS(0x4b000000u /* 8388608 */);
  return FROM_BITS(SELECT(BITS(magnitude) < 0x4b000000u, BITS(rounded), BITS(magnitude)));
}
FUNCTION float float_round(float x) {
  UINT sign = BITS(x) & 0x80000000u;
  return FROM_BITS(BITS(round_magnitude(float_abs(x))) | sign);
}
FUNCTION float float_trunc(float x) {
  UINT sign = BITS(x) & 0x80000000u;
  FLOAT magnitude = float_abs(x);
  FLOAT rounded = round_magnitude(magnitude);
  FLOAT result = rounded - FROM_BITS(SELECT(rounded > magnitude, 0x3f800000u /* 1 */, 0u));
  return FROM_BITS(BITS(result) | sign);
}
FUNCTION float float_floor(float x) {
  UINT sign = BITS(x) & 0x80000000u;
  FLOAT rounded = float_round(x);
  FLOAT result = rounded - FROM_BITS(SELECT(rounded > x, 0x3f800000u /* 1 */, 0u));
  return FROM_BITS(BITS(result) | sign);  // of -0
}
FUNCTION float float_ceil(float x) {
  UINT sign = BITS(x) & 0x80000000u;
  FLOAT rounded = float_round(x);
  FLOAT result = rounded + FROM_BITS(SELECT(rounded < x, 0x3f800000u /* 1 */, 0u));
  return FROM_BITS(BITS(result) | sign);  // of zeros from (-1, -0]
}

// --- exponential -----------------------------------------------------------------------------------------------------

/// exp(r + r_low) = high + low for |r| <= 0.36 and tiny r_low; high in [0.70, 1.42].
FUNCTION void exp_polynomial(float r, float r_low, OUT(FLOAT, high), OUT(FLOAT, low)) {
  FLOAT q = FROM_BITS(0x3ab4a641u /* 0.00137824577 */);
  q = FMA(q, r, FROM_BITS(0x3c091cbeu /* 0.00836866908 */));
  q = FMA(q, r, FROM_BITS(0x3d2aad13u /* 0.0416689627 */));
  q = FMA(q, r, FROM_BITS(0x3e2aaa49u /* 0.166665211 */));
  q = FMA(q, r, FROM_BITS(0x3efffffdu /* 0.499999911 */));
  FLOAT r2 = r * r;
  FLOAT w = FMA(r2, q, r_low);
  FLOAT s = r + w;
  FLOAT s1 = s - r;
  FLOAT s_low = w - s1;
  high = FROM_BITS(0x3f800000u /* 1 */) + s;
  FLOAT h1 = high - FROM_BITS(0x3f800000u /* 1 */);
  FLOAT h2 = s - h1;
  low = h2 + s_low;
}

/// exp(x + x_low) = (high + low) * 2^n for |x| < 200, x_low no larger than x's rounding error and |x| < 2 unless -0,
/// which costs nothing: compilers drop additions of it.
FUNCTION void exp_parts(float x, float x_low, OUT(FLOAT, high), OUT(FLOAT, low), OUT(int, n)) {
  FLOAT t = FMA(x, FROM_BITS(0x3fb8aa3bu /* 1.44269502 */), FROM_BITS(0x4b400000u /* 12582912 */));
  FLOAT k = t - FROM_BITS(0x4b400000u /* 12582912 */);
  n = int(BITS(t) - 0x4b400000u);
  FLOAT r1 = FMA(k, FROM_BITS(0xbf317200u /* -0.693145752 */), x);
  FLOAT r = FMA(k, FROM_BITS(0xb5bfbe8eu /* -1.42860677e-06 */), r1);
  FLOAT d = r1 - r;
  FLOAT r_low = FMA(k, FROM_BITS(0xb5bfbe8eu /* -1.42860677e-06 */), d) + x_low;
  exp_polynomial(r, r_low, high, low);
}

/// The same for any x_low with |x_low| <= |x| / 2^23.
FUNCTION void exp_parts_wide(float x, float x_low, OUT(FLOAT, high), OUT(FLOAT, low), OUT(int, n)) {
  FLOAT t = FMA(x, FROM_BITS(0x3fb8aa3bu /* 1.44269502 */), FROM_BITS(0x4b400000u /* 12582912 */));
  FLOAT k = t - FROM_BITS(0x4b400000u /* 12582912 */);
  n = int(BITS(t) - 0x4b400000u);
  FLOAT r1 = FMA(k, FROM_BITS(0xbf317200u /* -0.693145752 */), x);
  FLOAT c = FMA(k, FROM_BITS(0xb5bfbe8eu /* -1.42860677e-06 */), x_low);
  // Exact sum of r1 and c; either may be the larger one.
  FLOAT r = r1 + c;
  FLOAT b = r - r1;
  FLOAT e1 = r - b;
  FLOAT e2 = r1 - e1;
  FLOAT e3 = c - b;
  FLOAT r_low = e2 + e3;
  exp_polynomial(r, r_low, high, low);
}

/// Canonical, but that NaN is any NaN.
FUNCTION float ls_exp(float x) {
  FLOAT high;
  FLOAT low;
  int n;
  exp_parts(x, FROM_BITS(0x80000000u), high, low, n);
  // The exponent is added as an integer: no subnormal product.
  FLOAT result = FROM_BITS(BITS(high) + (UINT(n) << 23));
  FLOAT above = x + FROM_BITS(0x7f800000u);  // infinity, or NaN
  result = SELECT(x < FROM_BITS(0xc2aeac4fu /* -87.3365402, the last above 2^-126 */), FROM_BITS(0u), result);
  return SELECT(x <= FROM_BITS(0x42b17217u /* 88.7228317, the last finite one */), result, above);
}

// --- logarithm -------------------------------------------------------------------------------------------------------

FUNCTION float ls_log(float x) {
  UINT bits = BITS(x);
  UINT d = bits - 0x3f2aaaabu /* 2/3 */;
  int e = int(d) >> 23;
  FLOAT f = FROM_BITS(bits - (UINT(e) << 23)) - FROM_BITS(0x3f800000u /* 1 */);  // x = 2^e (1 + f), f in [-1/3, 1/3]
  FLOAT exponent = FROM_BITS(UINT(e) + 0x4b400000u) - FROM_BITS(0x4b400000u /* 12582912 */);
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
  FLOAT r = f + w;
  FLOAT r1 = r - f;
  FLOAT r_low = w - r1;
  FLOAT s = FMA(exponent, FROM_BITS(0x3f317200u /* 0.693145752 */), r);
  FLOAT s0 = FMA(exponent, FROM_BITS(0x3f317200u /* 0.693145752 */), -s);
  FLOAT s_low = s0 + r;
  FLOAT u = FMA(exponent, FROM_BITS(0x35bfbe8eu /* 1.42860677e-06 */), r_low);
  FLOAT tail = s_low + u;
  FLOAT z = s + tail;
  UINT result = SELECT(bits >= 0x7f800000u, 0x7fc00000u, BITS(z));  // NaN and all negatives
  result = SELECT(bits == 0x7f800000u, 0x7f800000u, result);
  result = SELECT((bits & 0x7fffffffu) < 0x00800000u, 0xff800000u, result);
  return FROM_BITS(result);
}

// --- tanh, erf, sigmoid, gelu ----------------------------------------------------------------------------------------

/// 1 / d for d in [2^-100, 2^100], relative error below 2^-22.5: a guess by integers, then two steps of third order.
FUNCTION float reciprocal_estimate(float d) {
  FLOAT y = FROM_BITS(0x7ef311c7u - BITS(d));
  FLOAT e = FMA(-d, y, FROM_BITS(0x3f800000u /* 1 */));
  FLOAT p = FMA(e, e, e);
  y = FMA(p, y, y);
  e = FMA(-d, y, FROM_BITS(0x3f800000u /* 1 */));
  p = FMA(e, e, e);
  return FMA(p, y, y);
}

FUNCTION float ls_tanh(float x) {
  UINT bits = BITS(x);
  UINT magnitude = bits & 0x7fffffffu;
  FLOAT a = FROM_BITS(SELECT(magnitude > 0x41200000u /* 10 */, 0x41200000u, magnitude));
  // 1 - 2 / (e^2a + 1)
  FLOAT high;
  FLOAT low;
  int n;
  FLOAT a2 = a + a;
  exp_parts(a2, FROM_BITS(0x80000000u), high, low, n);
  FLOAT scale = FROM_BITS(UINT(n + 127) << 23);
  FLOAT e = high * scale;
  FLOAT d = e + FROM_BITS(0x3f800000u /* 1 */);
  FLOAT d1 = d - e;
  FLOAT d2 = FROM_BITS(0x3f800000u /* 1 */) - d1;
  FLOAT d_low = FMA(low, scale, d2);
  FLOAT y = reciprocal_estimate(d);
  FLOAT r = FMA(-d, y, FROM_BITS(0x3f800000u /* 1 */));
  r = FMA(-d_low, y, r);
  y = FMA(y, r, y);
  FLOAT large = FMA(FROM_BITS(0xc0000000u /* -2 */), y, FROM_BITS(0x3f800000u /* 1 */));
  // a + a^3 p(a^2)
  FLOAT z = a * a;
  FLOAT p = FROM_BITS(0xbbbac7d6u /* -0.00570009183 */);
  p = FMA(p, z, FROM_BITS(0x3ca908e2u /* 0.0206341185 */));
  p = FMA(p, z, FROM_BITS(0xbd5c1c50u /* -0.0537379384 */));
  p = FMA(p, z, FROM_BITS(0x3e088382u /* 0.133314162 */));
  p = FMA(p, z, FROM_BITS(0xbeaaaa99u /* -0.333332807 */));
  FLOAT az = a * z;
  FLOAT small = FMA(az, p, a);
  UINT result = SELECT(magnitude < 0x3f200000u /* 0.625 */, BITS(small), BITS(large));
  result = SELECT(magnitude < 0x39000000u /* 2^-13 */, magnitude, result);
  result = result | (bits & 0x80000000u);
  result = SELECT(magnitude > 0x7f800000u, 0x7fc00000u, result);
  return FROM_BITS(result);
}

FUNCTION float ls_erf(float x) {
  UINT bits = BITS(x);
  UINT magnitude = bits & 0x7fffffffu;
  FLOAT a = FROM_BITS(SELECT(magnitude > 0x407ccccdu /* 3.95 */, 0x407ccccdu, magnitude));
  // 1 - e^-p(a), p = -log(erfc(a))
  FLOAT p = FROM_BITS(0xb5d9a2deu /* -1.62151605e-06 */);
  p = FMA(p, a, FROM_BITS(0x383fc306u /* 4.57195783e-05 */));
  p = FMA(p, a, FROM_BITS(0xba1ba26du /* -0.000593698409 */));
  p = FMA(p, a, FROM_BITS(0x3b9b720eu /* 0.00474382099 */));
  p = FMA(p, a, FROM_BITS(0xbcd80bbau /* -0.0263727792 */));
  p = FMA(p, a, FROM_BITS(0x3de141b6u /* 0.109988615 */));
  p = FMA(p, a, FROM_BITS(0x3f21c62cu /* 0.631930113 */));
  p = FMA(p, a, FROM_BITS(0x3f90a95cu /* 1.13016844 */));
  FLOAT p0 = FROM_BITS(0xb99ee856u /* -0.000303092122 */);
  FLOAT p_high = FMA(p, a, p0);
  FLOAT p1 = FMA(p, a, -p_high);
  FLOAT p_low = p1 + p0;
  FLOAT high;
  FLOAT low;
  int n;
  exp_parts(-p_high, -p_low, high, low, n);
  FLOAT scale = FROM_BITS(UINT(n + 127) << 23);
  FLOAT rest = FMA(-low, scale, FROM_BITS(0x3f800000u /* 1 */));
  FLOAT large = FMA(-high, scale, rest);
  // a + a q(a^2)
  FLOAT z = a * a;
  FLOAT q = FROM_BITS(0xb7141180u /* -8.82556196e-06 */);
  q = FMA(q, z, FROM_BITS(0x38e57ca2u /* 0.000109427856 */));
  q = FMA(q, z, FROM_BITS(0xba5d1916u /* -0.000843421905 */));
  q = FMA(q, z, FROM_BITS(0x3baaf426u /* 0.00521709304 */));
  q = FMA(q, z, FROM_BITS(0xbcdc1160u /* -0.0268637538 */));
  q = FMA(q, z, FROM_BITS(0x3de71753u /* 0.112837456 */));
  q = FMA(q, z, FROM_BITS(0xbec093a2u /* -0.376126349 */));
  q = FMA(q, z, FROM_BITS(0x3e0375d4u /* 0.128379166 */));
  FLOAT small = FMA(a, q, a);
  UINT result = SELECT(magnitude < 0x3f800000u /* 1 */, BITS(small), BITS(large));
  result = result | (bits & 0x80000000u);
  result = SELECT(magnitude > 0x7f800000u, 0x7fc00000u, result);
  return FROM_BITS(result);
}

FUNCTION float ls_sigmoid(float x) {
  UINT bits = BITS(x);
  UINT magnitude = bits & 0x7fffffffu;
  UINT negative = 0u - (bits >> 31);
  FLOAT a = FROM_BITS(SELECT(magnitude > 0x42af0000u /* 87.5 */, 0x42af0000u, magnitude));
  // E = e^-|x|; 1 / (1 + E) for positive, E / (1 + E) for negative x
  FLOAT high;
  FLOAT low;
  int n;
  exp_parts(-a, FROM_BITS(0x80000000u), high, low, n);
  int m = SELECT(n < -100, -100, n);  // beside 1, smaller ones do not count, and might be subnormal
  FLOAT scale = FROM_BITS(UINT(m + 127) << 23);
  FLOAT e = high * scale;
  FLOAT d = FROM_BITS(0x3f800000u /* 1 */) + e;
  FLOAT d1 = d - FROM_BITS(0x3f800000u /* 1 */);
  FLOAT d2 = e - d1;
  FLOAT d_low = FMA(low, scale, d2);
  FLOAT y = reciprocal_estimate(d);
  FLOAT numerator = FROM_BITS((BITS(high) & negative) | (0x3f800000u & ~negative));
  FLOAT numerator_low = FROM_BITS(BITS(low) & negative);
  FLOAT q = numerator * y;
  FLOAT r = FMA(-d, q, numerator);
  r = FMA(-d_low, q, r) + numerator_low;
  q = FMA(r, y, q);
  UINT result = BITS(q) + ((UINT(n) & negative) << 23);
  result = SELECT(bits > 0xc2af0000u /* -87.5 */, 0u, result);
  result = SELECT(magnitude > 0x7f800000u, 0x7fc00000u, result);
  return FROM_BITS(result);
}

/// x Phi(x) with full relative precision in the negative tail, where 0.5 x (1 + erf) has no correct digit. With a = |x|
/// and h = a / (a + 2), a Phi(-a) is h e^(-(a^2 + l(h)) / 2); l is c h + h (h - 1) q(h), whose second term is small, so
/// that its rounding errors are. h solves a - (a + 2) h = 0 in one step from an estimate. gelu(-inf) is -0, its limit.
FUNCTION float ls_gelu(float x) {
  FLOAT magnitude = float_abs(x);
  FLOAT limit = FROM_BITS(0x41526666u /* 13.1499996 */);  // -gelu(-13.1462) is about 2^-126
  FLOAT a = SELECT(magnitude > limit, limit, magnitude);  // NaN stays
  FLOAT s = a * a;
  FLOAT s_low = FMA(a, a, -s);
  // 1 / (a + 2), relative error below 2^-14.8: a guess by integers, then a parabola
  FLOAT d = a + FROM_BITS(0x40000000u /* 2 */);
  FLOAT guess = FROM_BITS(0x7ef34000u - BITS(d));
  FLOAT v = FMA(-d, guess, FROM_BITS(0x3fc01fd2u /* 1.50097108 */));
  FLOAT y = FMA(v, v, FROM_BITS(0x3f3fc061u /* 0.749029219 */)) * guess;
  FLOAT h0 = a * y;
  FLOAT e = FMA(FROM_BITS(0xc0000000u /* -2 */), h0, a);
  e = FMA(-a, h0, e);
  FLOAT h = FMA(e, y, h0);
  FLOAT u = h - FROM_BITS(0x3f800000u /* 1 */);
  FLOAT q = FROM_BITS(0x3dd6b112u /* 0.104829922 */);
  q = FMA(q, u, FROM_BITS(0x3dfdfbb6u /* 0.124015257 */));
  q = FMA(q, u, FROM_BITS(0xbfa29541u /* -1.27017987 */));
  q = FMA(q, u, FROM_BITS(0xc094ed02u /* -4.65393162 */));
  q = FMA(q, u, FROM_BITS(0xc0dd088bu /* -6.90729284 */));
  q = FMA(q, u, FROM_BITS(0xc09c2536u /* -4.87954235 */));
  q = FMA(q, u, FROM_BITS(0xbf8eacb0u /* -1.114645 */));
  q = FMA(q, u, FROM_BITS(0x3b670118u /* 0.00352484547 */));
  q = FMA(q, u, FROM_BITS(0xbf34c0ddu /* -0.70606786 */));
  q = FMA(q, u, FROM_BITS(0x3e229ec3u /* 0.158808753 */));
  FLOAT hu = h * u;
  FLOAT l_low = FMA(hu, q, s_low);
  // a^2 + l = r - n 2 log 2; e^(-r / 2) = 1 + w
  FLOAT l_high = FROM_BITS(0x3feb3c11u /* 1.83777058 */);
  FLOAT sum = FMA(h, l_high, s);
  FLOAT t = FMA(sum, FROM_BITS(0xbf38aa3bu /* -0.721347511 */), FROM_BITS(0x4b400000u /* 12582912 */));
  FLOAT n = t - FROM_BITS(0x4b400000u /* 12582912 */);
  FLOAT r = FMA(n, FROM_BITS(0x3fb17200u /* 1.3862915 */), s);
  r = FMA(h, l_high, r) + l_low;
  r = FMA(n, FROM_BITS(0x363fbe8eu /* 2.85721353e-06 */), r);
  FLOAT p = FROM_BITS(0x37bb718bu /* 2.23450097e-05 */);
  p = FMA(p, r, FROM_BITS(0xb9893869u /* -0.000261727051 */));
  p = FMA(p, r, FROM_BITS(0x3b2aa526u /* 0.00260383775 */));
  p = FMA(p, r, FROM_BITS(0xbcaaaa1cu /* -0.0208330676 */));
  p = FMA(p, r, FROM_BITS(0x3e000002u /* 0.12500003 */));
  FLOAT r2 = r * r;
  FLOAT half_r = FROM_BITS(0xbf000000u /* -0.5 */) * r;
  FLOAT w = FMA(p, r2, half_r);
  // a - a Phi(-a) for positive, -a Phi(-a) for negative x
  FLOAT scale = FROM_BITS((BITS(t) << 23) + 0x3f800000u);
  FLOAT g = FMA(h, w, h);
  UINT bits = BITS(x);
  FLOAT positive = FROM_BITS(SELECT(bits > 0x80000000u, 0x80000000u, bits));
  FLOAT result = FMA(-g, scale, positive);
  FLOAT half_x = FROM_BITS(0x3f000000u /* 0.5 */) * x;
  return SELECT(magnitude < FROM_BITS(0x32000000u /* 2^-27 */), half_x, result);
}

/// For a value of bf16, something that rounds to the same bf16 as ls_gelu (proved by trying all): h P(h) e^(-a^2 / 2)
/// with h = a / (1 + a / 4), to about 2^-18, for 26 instead of 45 operations.
FUNCTION float ls_gelu_to_bf16(float x) {
  FLOAT magnitude = float_abs(x);
  FLOAT limit = FROM_BITS(0x41530000u /* 13.1875 */);     // -gelu of it is below 2^-126
  FLOAT a = SELECT(magnitude > limit, limit, magnitude);  // NaN stays
  FLOAT s = a * a;                                        // exact
  FLOAT d = FMA(a, FROM_BITS(0x3e800000u /* 0.25 */), FROM_BITS(0x3f800000u /* 1 */));
  FLOAT guess = FROM_BITS(0x7ef5e21du - BITS(d));
  FLOAT v = FMA(-d, guess, FROM_BITS(0x3fc01e42u /* 1.5009234 */));
  FLOAT h = FMA(v, v, FROM_BITS(0x3f3fbc48u /* 0.748966694 */)) * guess * a;
  FLOAT p = FROM_BITS(0xb79ed181u /* -1.89326256e-05 */);
  p = FMA(p, h, FROM_BITS(0x39356c66u /* 0.000173018867 */));
  p = FMA(p, h, FROM_BITS(0x39bce191u /* 0.000360262144 */));
  p = FMA(p, h, FROM_BITS(0xbc4e86f6u /* -0.0126054194 */));
  p = FMA(p, h, FROM_BITS(0x3da7b3bbu /* 0.0818857774 */));
  p = FMA(p, h, FROM_BITS(0xbe8c493eu /* -0.273996294 */));
  p = FMA(p, h, FROM_BITS(0x3f0000bcu /* 0.500011206 */));
  FLOAT t = FMA(s, FROM_BITS(0xbf38aa3bu /* -0.721347511 */), FROM_BITS(0x4b400000u /* 12582912 */));
  FLOAT n = t - FROM_BITS(0x4b400000u /* 12582912 */);
  FLOAT r = FMA(n, FROM_BITS(0x3fb17218u /* 1.38629436 */), s);
  FLOAT e = FROM_BITS(0x3b29d142u /* 0.00259120809 */);
  e = FMA(e, r, FROM_BITS(0xbcabefdfu /* -0.0209884029 */));
  e = FMA(e, r, FROM_BITS(0x3dfffdccu /* 0.124995798 */));
  e = FMA(e, r, FROM_BITS(0xbefffb59u /* -0.499964505 */));
  e = FMA(e, r, FROM_BITS(0x3f800261u /* 1.0000726 */));
  FLOAT scale = FROM_BITS((BITS(t) << 23) + 0x3f800000u);
  UINT bits = BITS(x);
  FLOAT positive = FROM_BITS(SELECT(bits > 0x80000000u, 0x80000000u, bits));
  return FMA(-(h * scale), p * e, positive);
}

// --- reciprocal square root ------------------------------------------------------------------------------------------

/// 1 / sqrt(m) for m in [1, 4), relative error below 2^-22.
FUNCTION float rsqrt_estimate(float m) {
  FLOAT y = FROM_BITS(0x5f3759dfu - (BITS(m) >> 1));
  FLOAT g = m * y;
  FLOAT e = FMA(-g, y, FROM_BITS(0x3f800000u /* 1 */));
  FLOAT p = FMA(e, FROM_BITS(0x3ec00000u /* 0.375 */), FROM_BITS(0x3f000000u /* 0.5 */));
  FLOAT ye = y * e;
  y = FMA(ye, p, y);
  g = m * y;
  e = FMA(-g, y, FROM_BITS(0x3f800000u /* 1 */));
  p = FMA(e, FROM_BITS(0x3ec00000u /* 0.375 */), FROM_BITS(0x3f000000u /* 0.5 */));
  ye = y * e;
  return FMA(ye, p, y);
}

/// x = m 4^k with m in [1, 4), for positive normal x.
FUNCTION void split_even_exponent(UINT bits, OUT(FLOAT, m), OUT(int, k)) {
  int exponent = int(bits >> 23) - 127;
  UINT odd = UINT(exponent) & 1u;
  k = (exponent - int(odd)) >> 1;
  m = FROM_BITS((bits & 0x007fffffu) | ((127u + odd) << 23));
}

FUNCTION float ls_rsqrt(float x) {
  UINT bits = BITS(x);
  FLOAT m;
  int k;
  split_even_exponent(bits, m, k);
  FLOAT y = rsqrt_estimate(m);
  FLOAT g = m * y;
  FLOAT g_low = FMA(m, y, -g);
  FLOAT e = FMA(-g, y, FROM_BITS(0x3f800000u /* 1 */));
  e = FMA(-g_low, y, e);
  FLOAT half_y = FROM_BITS(0x3f000000u /* 0.5 */) * y;
  FLOAT z = FMA(half_y, e, y);
  UINT result = BITS(z) - (UINT(k) << 23);
  result = SELECT(bits >= 0x7f800000u, 0x7fc00000u, result);  // NaN and all negatives
  result = SELECT(bits == 0x7f800000u, 0u, result);
  result = SELECT((bits & 0x7fffffffu) < 0x00800000u, (bits & 0x80000000u) | 0x7f800000u, result);
  return FROM_BITS(result);
}

// --- sine and cosine -------------------------------------------------------------------------------------------------

/// a = (quadrant) pi/2 + y + y_low for 0 <= a <= 2^20, |y| <= pi/4 (Cody and Waite; every step but the last is exact).
FUNCTION void reduce_small(float a, OUT(FLOAT, y), OUT(FLOAT, y_low), OUT(UINT, quadrant)) {
  FLOAT t = FMA(a, FROM_BITS(0x3f22f983u /* 0.636619747 */), FROM_BITS(0x4b400000u /* 12582912 */));
  FLOAT k = t - FROM_BITS(0x4b400000u /* 12582912 */);
  quadrant = BITS(t);
  FLOAT y1 = FMA(k, FROM_BITS(0xbfc90fdbu /* -1.57079637 */), a);
  FLOAT p = k * FROM_BITS(0x333bbd2eu /* 4.37113883e-08 */);
  FLOAT p_low = FMA(k, FROM_BITS(0x333bbd2eu /* 4.37113883e-08 */), -p);
  FLOAT y2 = y1 + p;  // y2 + e = y1 + p
  FLOAT b = y2 - y1;
  FLOAT e1 = y2 - b;
  FLOAT e2 = y1 - e1;
  FLOAT e3 = p - b;
  FLOAT e = e2 + e3;
  FLOAT l = FMA(k, FROM_BITS(0x26f72cedu /* 1.71512451e-15 */), p_low) + e;
  y = y2 + l;
  FLOAT f = y - y2;
  y_low = l - f;
}

/// Word `index` of (0, 2/pi in words of 32 bits), for index 0..7; by masks, as in philox_word.
FUNCTION UINT pick(UINT index, UINT w0, UINT w1, UINT w2, UINT w3, UINT w4) {
  UINT bit0 = 0u - (index & 1u);
  UINT bit1 = 0u - ((index >> 1) & 1u);
  UINT bit2 = 0u - ((index >> 2) & 1u);
  UINT low = w0 ^ ((w0 ^ w1) & bit0);
  UINT high = w2 ^ ((w2 ^ w3) & bit0);
  low = low ^ ((low ^ high) & bit1);
  return low ^ ((low ^ w4) & bit2);
}

/// The same for 2^20 < a < inf: the bits of a * 2/pi that matter, by integers (Payne and Hanek).
FUNCTION void reduce_large(UINT magnitude, OUT(FLOAT, y), OUT(FLOAT, y_low), OUT(UINT, quadrant)) {
  UINT m = (magnitude & 0x007fffffu) | 0x00800000u;
  UINT exponent = magnitude >> 23;
  UINT first_bit = SELECT(exponent < 147u, 147u, exponent) - 120u;
  UINT index = first_bit >> 5;
  UINT shift = first_bit & 31u;
  UINT t0 = pick(index, 0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u);
  UINT t1 = pick(index, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u);
  UINT t2 = pick(index, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u);
  UINT t3 = pick(index, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu);
  UINT complement = 31u - shift;
  UINT w0 = (t0 << shift) | ((t1 >> 1) >> complement);
  UINT w1 = (t1 << shift) | ((t2 >> 1) >> complement);
  UINT w2 = (t2 << shift) | ((t3 >> 1) >> complement);
  // high:low = m * (w0:w1:w2) / 2^32, modulo 4 quadrants in 64 bits
  UINT low = m * w1;
  UINT high = m * w0 + MUL_HIGH(m, w1);
  UINT low_sum = low + MUL_HIGH(m, w2);
  high = high + SELECT(low_sum < low, 1u, 0u);
  quadrant = (high + 0x20000000u) >> 30;
  UINT fraction = high - (quadrant << 30);
  UINT sign = fraction & 0x80000000u;
  UINT negated_low = 0u - low_sum;
  UINT negated_high = 0u - fraction - SELECT(low_sum != 0u, 1u, 0u);
  UINT abs_high = SELECT(sign != 0u, negated_high, fraction);
  UINT abs_low = SELECT(sign != 0u, negated_low, low_sum);
  // To floats in pieces below 2^24, which convert exactly.
  FLOAT f1 = float(int(abs_high >> 8));
  FLOAT f2 = float(int(((abs_high & 0xffu) << 16) | (abs_low >> 16)));
  FLOAT f3 = float(int(abs_low & 0xffffu));
  FLOAT g = f1 * FROM_BITS(0x34800000u /* 2^-22 */);
  FLOAT r = FMA(f2, FROM_BITS(0x28800000u /* 2^-46 */), g);
  FLOAT d = g - r;
  FLOAT r_low = FMA(f2, FROM_BITS(0x28800000u /* 2^-46 */), d);
  r_low = FMA(f3, FROM_BITS(0x20800000u /* 2^-62 */), r_low);
  FLOAT p = r * FROM_BITS(0x3fc90fdbu /* 1.57079637 */);
  FLOAT p_low = FMA(r, FROM_BITS(0x3fc90fdbu /* 1.57079637 */), -p);
  p_low = FMA(r, FROM_BITS(0xb33bbd2eu /* -4.37113883e-08 */), p_low);
  p_low = FMA(r_low, FROM_BITS(0x3fc90fdbu /* 1.57079637 */), p_low);
  y = FROM_BITS(BITS(p) ^ sign);
  y_low = FROM_BITS(BITS(p_low) ^ sign);
}

FUNCTION float sin_polynomial(float y, float y_low) {
  FLOAT z = y * y;
  FLOAT p = FROM_BITS(0x363bf0fcu /* 2.80054428e-06 */);
  p = FMA(p, z, FROM_BITS(0xb9502433u /* -0.00019849911 */));
  p = FMA(p, z, FROM_BITS(0x3c0888b2u /* 0.00833337195 */));
  p = FMA(p, z, FROM_BITS(0xbe2aaaabu /* -0.166666672 */));
  FLOAT half_z = z * FROM_BITS(0xbf000000u /* -0.5 */);
  FLOAT low = FMA(half_z, y_low, y_low);
  FLOAT yz = y * z;
  FLOAT v = FMA(yz, p, low);
  FLOAT result = y + v;
  return result;
}

FUNCTION float cos_polynomial(float y, float y_low) {
  FLOAT z = y * y;
  FLOAT z_low = FMA(y, y, -z);
  FLOAT p = FROM_BITS(0x37ccf488u /* 2.44325638e-05 */);
  p = FMA(p, z, FROM_BITS(0xbab60615u /* -0.00138873106 */));
  p = FMA(p, z, FROM_BITS(0x3d2aaaa5u /* 0.0416666456 */));
  FLOAT half_z = z * FROM_BITS(0x3f000000u /* 0.5 */);
  FLOAT w = FROM_BITS(0x3f800000u /* 1 */) - half_z;
  FLOAT w1 = FROM_BITS(0x3f800000u /* 1 */) - w;
  FLOAT w_low = w1 - half_z;
  FLOAT c = FMA(z_low, FROM_BITS(0xbf000000u /* -0.5 */), w_low);
  c = FMA(-y, y_low, c);
  FLOAT z2 = z * z;
  c = FMA(z2, p, c);
  FLOAT result = w + c;
  return result;
}

FUNCTION float sin_cos_result(float y, float y_low, UINT quadrant, UINT sign, UINT magnitude) {
  UINT sine = BITS(sin_polynomial(y, y_low));
  UINT cosine = BITS(cos_polynomial(y, y_low));
  UINT result = SELECT((quadrant & 1u) != 0u, cosine, sine);
  result = result ^ ((quadrant & 2u) << 30) ^ sign;
  UINT tiny = SELECT(magnitude < 0x39000000u /* 2^-13 */, 1u, 0u);  // sin x = x
  result = SELECT((tiny & ~quadrant & 1u) != 0u, magnitude | sign, result);
  result = SELECT(magnitude >= 0x7f800000u, 0x7fc00000u, result);
  return FROM_BITS(result);
}

FUNCTION void reduce(UINT magnitude, OUT(FLOAT, y), OUT(FLOAT, y_low), OUT(UINT, quadrant)) {
  FLOAT y0;
  FLOAT low0;
  UINT quadrant0;
  FLOAT y1;
  FLOAT low1;
  UINT quadrant1;
  reduce_small(FROM_BITS(magnitude), y0, low0, quadrant0);
  reduce_large(magnitude, y1, low1, quadrant1);
  UINT large = 0u - ((0x49800000u /* 2^20 */ - magnitude) >> 31);  // a mask: a select would become a branch
  y = FROM_BITS((BITS(y1) & large) | (BITS(y0) & ~large));
  y_low = FROM_BITS((BITS(low1) & large) | (BITS(low0) & ~large));
  quadrant = (quadrant1 & large) | (quadrant0 & ~large);
}

FUNCTION float ls_sin(float x) {
  UINT magnitude = BITS(x) & 0x7fffffffu;
  FLOAT y;
  FLOAT y_low;
  UINT quadrant;
  reduce(magnitude, y, y_low, quadrant);
  return sin_cos_result(y, y_low, quadrant, BITS(x) & 0x80000000u, magnitude);
}

FUNCTION float ls_cos(float x) {
  UINT magnitude = BITS(x) & 0x7fffffffu;
  FLOAT y;
  FLOAT y_low;
  UINT quadrant;
  reduce(magnitude, y, y_low, quadrant);
  return sin_cos_result(y, y_low, quadrant + 1u, 0u, magnitude);
}

// For |x| <= 2^20 (and NaN) only, where they give the bits of ls_sin and ls_cos four times as fast: for loops that have
// looked at a block's largest magnitude.

FUNCTION float ls_sin_small(float x) {
  UINT magnitude = BITS(x) & 0x7fffffffu;
  FLOAT y;
  FLOAT y_low;
  UINT quadrant;
  reduce_small(FROM_BITS(magnitude), y, y_low, quadrant);
  return sin_cos_result(y, y_low, quadrant, BITS(x) & 0x80000000u, magnitude);
}

FUNCTION float ls_cos_small(float x) {
  UINT magnitude = BITS(x) & 0x7fffffffu;
  FLOAT y;
  FLOAT y_low;
  UINT quadrant;
  reduce_small(FROM_BITS(magnitude), y, y_low, quadrant);
  return sin_cos_result(y, y_low, quadrant + 1u, 0u, magnitude);
}

// --- for devices whose division or square root is loose --------------------------------------------------------------

/// Correctly rounded square root of a canonical x.
FUNCTION float soft_sqrt(float x) {
  UINT bits = BITS(x);
  FLOAT m;
  int k;
  split_even_exponent(bits, m, k);
  FLOAT y = rsqrt_estimate(m);
  FLOAT half_y = FROM_BITS(0x3f000000u /* 0.5 */) * y;
  FLOAT s = m * y;
  FLOAT r = FMA(-s, s, m);
  s = FMA(r, half_y, s);
  r = FMA(-s, s, m);
  s = FMA(r, half_y, s);
  UINT result = BITS(s) + (UINT(k) << 23);
  result = SELECT(bits >= 0x7f800000u, 0x7fc00000u, result);  // NaN and all negatives
  result = SELECT(bits == 0x7f800000u, 0x7f800000u, result);
  result = SELECT((bits & 0x7fffffffu) < 0x00800000u, bits & 0x80000000u, result);
  return FROM_BITS(result);
}

/// Correctly rounded, canonical a / b of canonical a and b.
FUNCTION float soft_div(float a, float b) {
  UINT sign = (BITS(a) ^ BITS(b)) & 0x80000000u;
  UINT abs_a = BITS(a) & 0x7fffffffu;
  UINT abs_b = BITS(b) & 0x7fffffffu;
  FLOAT m = FROM_BITS((abs_a & 0x007fffffu) | 0x3f800000u);
  FLOAT d = FROM_BITS((abs_b & 0x007fffffu) | 0x3f800000u);
  FLOAT y = reciprocal_estimate(d);
  FLOAT q = m * y;
  FLOAT r = FMA(-d, q, m);
  q = FMA(r, y, q);
  r = FMA(-d, q, m);
  q = FMA(r, y, q);
  int exponent = int(BITS(q) >> 23) + int(abs_a >> 23) - int(abs_b >> 23);
  UINT result = (BITS(q) & 0x007fffffu) | (UINT(exponent) << 23);
  // A quotient that rounds up to the smallest normal is below it or equal: zero either way.
  result = SELECT(exponent < 1, 0u, result);
  result = SELECT(result == 0x00800000u, 0u, result);
  result = SELECT(exponent > 254, 0x7f800000u, result);
  result = SELECT(abs_a < 0x00800000u, 0u, result);
  result = SELECT(abs_b < 0x00800000u, 0x7f800000u, result);
  result = SELECT(abs_a == 0x7f800000u, 0x7f800000u, result);
  result = SELECT(abs_b == 0x7f800000u, 0u, result);
  result = result | sign;
  UINT larger = SELECT(abs_a > abs_b, abs_a, abs_b);
  UINT smaller = SELECT(abs_a > abs_b, abs_b, abs_a);
  result = SELECT(larger > 0x7f800000u, 0x7fc00000u, result);
  result = SELECT(larger < 0x00800000u, 0x7fc00000u, result);
  result = SELECT(smaller == 0x7f800000u, 0x7fc00000u, result);
  return FROM_BITS(result);
}

/// x / d by way of `inverse`, the correctly rounded 1 / d, where d is in [2^-16, 2^60); or false, where the quotient may
/// be another one, among others if `inverse` is NaN. q is less than 1.5 ulp off. `rest` is exact if q is off by no more
/// than one, and then the last step rounds correctly (Markstein): a midpoint is no nearer to x / d than what `inverse` is
/// off can move it. Of quotients between 1 and 1.5 ulp away the same holds but for significands of x above 2 - 3 * 2^-23
/// that are below d's: of those there is one pair, for which it is right too. Above 2^-60 no rest is subnormal.
FUNCTION bool quick_quotient(float x, float d, float inverse, OUT(FLOAT, quotient)) {
  FLOAT q = x * inverse;
  FLOAT rest = FMA(q, d, -x);  // of the other sign, so that x = -0 gives -0
  quotient = FMA(-rest, inverse, q);
  return float_abs(quotient) > FROM_BITS(0x21800000u /* 2^-60 */) || quotient == FROM_BITS(0u);
}

/// The same for a quotient that is only rounded to bf16: q is no more than one off x / d as a float, or both become
/// zero or infinite, so that it rounds to the same bf16 unless it is next to the middle of two of them.
FUNCTION bool quick_quotient_to_bf16(float x, float inverse, OUT(FLOAT, quotient)) {
  quotient = x * inverse;
  return inverse == inverse && (BITS(quotient) << 16) - 0x7ffe0000u > 0x00040000u;
}

// --- f16 and bf16 ----------------------------------------------------------------------------------------------------

/// The f16 nearest to x, halves to even, in the low 16 bits; subnormals are kept.
FUNCTION UINT encode_f16(float x) {
  UINT magnitude = BITS(x) & 0x7fffffffu;
  UINT normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Below 2^-14 the significand moves right by 14 to 24 places more than its exponent says; 25 leaves nothing.
  int places = 126 - int(magnitude >> 23);
  places = SELECT(places < 14, 14, places);
  UINT shift = UINT(SELECT(places > 25, 25, places));
  UINT significand = (magnitude & 0x007fffffu) | 0x00800000u;
  UINT subnormal = significand >> shift;
  UINT rest = significand & ((1u << shift) - 1u);
  UINT half_unit = 1u << (shift - 1u);
  UINT above = SELECT(rest > half_unit, 1u, 0u);
  UINT tie = SELECT(rest == half_unit, subnormal & 1u, 0u);
  UINT result = SELECT(magnitude < 0x38800000u /* 2^-14 */, subnormal + (above | tie), normal);
  result = SELECT(magnitude >= 0x477ff000u /* 65520 */, 0x7c00u, result);
  result = result | ((BITS(x) >> 16) & 0x8000u);
  return SELECT(magnitude > 0x7f800000u, 0x7e00u, result);
}

FUNCTION float decode_f16(UINT word) {
  UINT sign = (word & 0x8000u) << 16;
  UINT magnitude = word & 0x7fffu;
  FLOAT subnormal = float(int(magnitude & 0x3ffu)) * FROM_BITS(0x33800000u /* 2^-24 */);
  UINT result = SELECT(magnitude < 0x400u, BITS(subnormal), (magnitude << 13) + 0x38000000u);
  result = SELECT(magnitude == 0x7c00u, 0x7f800000u, result) | sign;
  return FROM_BITS(SELECT(magnitude > 0x7c00u, 0x7fc00000u, result));
}

/// The bf16 nearest to x, halves to even, in the low 16 bits.
FUNCTION UINT nearest_bf16(float x) {
  UINT bits = BITS(x);
  UINT result = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return SELECT((bits & 0x7fffffffu) > 0x7f800000u, 0x7fc0u, result);
}
/// The same, canonical.
FUNCTION UINT encode_bf16(float x) {
  UINT result = nearest_bf16(x);
  return SELECT((result & 0x7fffu) <= 0x0080u, result & 0x8000u, result);
}

/// Exact, but for subnormals, which are read as the zero of their sign.
FUNCTION float decode_bf16(UINT word) {
  return operand_f32(FROM_BITS(word << 16));
}
