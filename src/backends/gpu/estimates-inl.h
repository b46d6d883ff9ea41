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

// gelu of values of 16 bits, by estimates of 1 / gelu_divisor and of 2^gelu_exponent whose relative errors are below
// 2^-22 and 2^-21: with a = |x|, a Phi(-a) is h P(h) e^(-a^2 / 2), h = a / (1 + slope a); p is -P(h), since a sign is
// an instruction of its own in some languages.

FUNCTION float gelu_magnitude(float x, float limit) {
  FLOAT magnitude = MAGNITUDE(x);
  return SELECT(magnitude > limit, limit, magnitude);  // NaN stays
}
FUNCTION float gelu_divisor(float x, float limit, float slope) {
  return FMA(gelu_magnitude(x, limit), slope, FROM_BITS(0x3f800000u /* 1 */));
}
FUNCTION float gelu_exponent(float x, float limit) {
  FLOAT a = gelu_magnitude(x, limit);
  FLOAT s = a * a;  // exact
  return s * FROM_BITS(0xbf38aa3bu /* -0.721347511 */);
}
FUNCTION float gelu_positive(float x) {
  UINT bits = BITS(x);
  return FROM_BITS(SELECT(bits > 0x80000000u, 0x80000000u, bits));
}

/// For a value of bf16: what rounds to the same bf16 as ls_gelu. With the limit 13.1875, as there, and the slope 0.36.
/// Of five coefficients, those that leave the results of all values farthest from where they would round to another
/// one.
FUNCTION float gelu_to_bf16_by(float x, float inverse, float power) {
  FLOAT h = gelu_magnitude(x, FROM_BITS(0x41530000u)) * inverse;
  FLOAT p = FROM_BITS(0x3acbafbcu /* 0.00155400438 */);
  p = FMA(p, h, FROM_BITS(0xbbcbcf9fu /* -0.00621981872 */));
  p = FMA(p, h, FROM_BITS(0xbcde9551u /* -0.027170809 */));
  p = FMA(p, h, FROM_BITS(0x3e602725u /* 0.218899325 */));
  p = FMA(p, h, FROM_BITS(0xbf000004u /* -0.500000238 */));
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
