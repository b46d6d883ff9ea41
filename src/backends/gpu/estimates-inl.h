// Second ways of math.h for GPUs, in the kernel subset: shorter ones where less has to be right. CMakeLists.txt adds
// this text to those that are compiled at run time; tests/backends/gpu/estimates_test.cpp tries the lemmas on every
// value.

/// ls_exp of what is not above 88.7 and no NaN.
FUNCTION float exp_of_low(float x) {
  FLOAT high;
  FLOAT low;
  int n;
  exp_parts(x, FROM_BITS(0x80000000u), high, low, n);
  FLOAT result = FROM_BITS(BITS(high) + (UINT(n) << 23));
  return SELECT(x < FROM_BITS(0xc2aeac4fu /* -87.3365402, the last above 2^-126 */), FROM_BITS(0u), result);
}

/// ls_exp of what is from -32 to 0.
FUNCTION float exp_of_mild(float x) {
  FLOAT high;
  FLOAT low;
  int n;
  exp_parts(x, FROM_BITS(0x80000000u), high, low, n);
  return FROM_BITS(BITS(high) + (UINT(n) << 23));
}

/// quick_quotient of an x that is not negative, by -d: some languages spend an instruction on a sign before an operand.
FUNCTION bool quick_share(float x, float minus_d, float inverse, OUT(FLOAT, quotient)) {
  FLOAT q = x * inverse;
  FLOAT rest = FMA(q, minus_d, x);
  quotient = FMA(rest, inverse, q);
  return quotient > FROM_BITS(0x21800000u /* 2^-60 */) || quotient == FROM_BITS(0u);
}

// gelu of values of 16 bits, by estimates of 1 / gelu_divisor, or of 1 / sqrt(gelu_radicand), and of 2^gelu_exponent
// whose relative errors are below 2^-22 and 2^-21: with a = |x|, a Phi(-a) is h P(h) e^(-a^2 / 2), h = a / (1 + slope
// a) or a / sqrt(u + a + w a^2); p is -P(h), since a sign is an instruction of its own in some languages.

FUNCTION float gelu_magnitude(float x, float limit) {
  FLOAT magnitude = MAGNITUDE(x);
  return SELECT(magnitude > limit, limit, magnitude);  // NaN stays
}
FUNCTION float gelu_divisor(float x, float limit, float slope) {
  return FMA(gelu_magnitude(x, limit), slope, FROM_BITS(0x3f800000u /* 1 */));
}
FUNCTION float gelu_radicand(float a) {
  return FMA(a * a, FROM_BITS(0x3e3c84b6u /* 0.1841 */), a + FROM_BITS(0x3fd00000u /* 1.625 */));
}
FUNCTION float gelu_exponent(float a, float plus) {
  FLOAT s = a * a;  // exact
  return FMA(s, FROM_BITS(0xbf38aa3bu /* -0.721347511 */), plus);
}
FUNCTION float gelu_positive(float x) {
  UINT bits = BITS(x);
  return FROM_BITS(SELECT(bits > 0x80000000u, 0x80000000u, bits));
}

/// For a value of bf16 and `a`, its magnitude: what rounds to the same bf16 as ls_gelu, or, of what is infinite, no
/// number. With the limit 13.1875, as there, of those, too. u, w and the four coefficients are those that leave the
/// results of all values farthest from where they would round to another one. The power is 2^0.35022 times as large, so
/// that of a small a h power is a: subnormal, which FMA may flush, just where a is.
FUNCTION float gelu_to_bf16_by(float x, float a, float inverse_root, float power) {
  FLOAT h = a * inverse_root;
  FLOAT p = FROM_BITS(0x3c2f55deu /* 0.0107016247 */);
  p = FMA(p, h, FROM_BITS(0xbdbb9680u /* -0.0915956497 */));
  p = FMA(p, h, FROM_BITS(0x3e9ff764u /* 0.312434316 */));
  p = FMA(p, h, FROM_BITS(0xbf000015u /* -0.500001252 */));
  return FMA(h * power, p, gelu_positive(x));
}

/// For a value of f16: what rounds to the same f16 as ls_gelu, or, next to the middle of two of f16 and below -5.5,
/// ls_gelu itself. With the limit 5.5 and the slope 0.25.
FUNCTION float gelu_to_f16_by(float x, float inverse, float power) {
  FLOAT h = gelu_magnitude(x, FROM_BITS(0x40b00000u)) * inverse;
  FLOAT p = FROM_BITS(0x37c1bce7u /* 2.30953574e-05 */);
  p = FMA(p, h, FROM_BITS(0xb958fb38u /* -0.000206929515 */));
  p = FMA(p, h, FROM_BITS(0xb985f526u /* -0.000255503866 */));
  p = FMA(p, h, FROM_BITS(0x3c4c0b2fu /* 0.0124538383 */));
  p = FMA(p, h, FROM_BITS(0xbda77a5bu /* -0.0817763433 */));
  p = FMA(p, h, FROM_BITS(0x3e8c4233u /* 0.27394256 */));
  p = FMA(p, h, FROM_BITS(0xbf000001u /* -0.50000006 */));
  FLOAT result = FMA(h * power, p, gelu_positive(x));
  // Within 10 units of f32 from a middle: (bits mod 2^13) - 2^12. Results below 2^-14 lie on 24 places behind the
  // point, as they do between 2^-14 and 2^-13 after a sum.
  FLOAT magnitude = float_abs(result);
  FLOAT least = FROM_BITS(0x38800000u /* 2^-14 */);
  magnitude = SELECT(magnitude < least, magnitude + least, magnitude);
  bool sure = (BITS(magnitude) << 19) - 0x7fb00000u > 0x00a00000u && x >= FROM_BITS(0xc0b00000u /* -5.5 */);
  if (sure) return result;
  return ls_gelu(x);
}
