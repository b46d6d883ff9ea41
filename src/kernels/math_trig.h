// f32 tangent, the inverse trigonometric functions, and atan2. In the kernel subset, rules and names as in math.h.

// --- tangent ---------------------------------------------------------------------------------------------------------

/// After the reduction of ls_sin: tan(y), or -1 / tan(y) in odd quadrants.
FUNCTION float ls_tan(float x) {
  UINT magnitude = BITS(x) & 0x7fffffffu;
  FLOAT y;
  FLOAT y_low;
  UINT quadrant;
  reduce(magnitude, y, y_low, quadrant);
  FLOAT z = y * y;
  FLOAT p = FROM_BITS(0x3b22267du /* 0.00247421791 */);
  p = FMA(p, z, FROM_BITS(0xbad8f808u /* -0.00165534113 */));
  p = FMA(p, z, FROM_BITS(0x3bc5e113u /* 0.00603879383 */));
  p = FMA(p, z, FROM_BITS(0x3bff8b3cu /* 0.00779858045 */));
  p = FMA(p, z, FROM_BITS(0x3cb55022u /* 0.0221329369 */));
  p = FMA(p, z, FROM_BITS(0x3d5ce894u /* 0.0539327413 */));
  p = FMA(p, z, FROM_BITS(0x3e088922u /* 0.13333562 */));
  // y z (1/3 + z p), the sum and y^3 in two floats
  FLOAT c = FROM_BITS(0x3eaaaaa9u /* 0.333333284 */);
  FLOAT third = FMA(p, z, c);
  FLOAT third1 = c - third;
  FLOAT third_low = FMA(p, z, third1);
  FLOAT z_low = FMA(y, y, -z);
  FLOAT yz = y * z;
  FLOAT yz_low = FMA(y, z, -yz);
  yz_low = FMA(y, z_low, yz_low);
  FLOAT tangent2 = FMA(z * z, FROM_BITS(0x3f400000u /* 0.75 */), z);  // tan(y)^2, nearly
  FLOAT w_low = FMA(tangent2, y_low, y_low);
  w_low = FMA(yz_low, third, w_low);
  w_low = FMA(yz, third_low, w_low);
  FLOAT w = FMA(yz, third, w_low);
  FLOAT t = y + w;
  FLOAT t1 = t - y;
  FLOAT t_low = w - t1;
  FLOAT positive = FROM_BITS(BITS(t) & 0x7fffffffu);
  FLOAT positive_low = FROM_BITS(BITS(t_low) ^ (BITS(t) & 0x80000000u));
  FLOAT q = reciprocal_estimate(positive);
  FLOAT e = FMA(-positive, q, FROM_BITS(0x3f800000u /* 1 */));
  e = FMA(-positive_low, q, e);
  FLOAT inverse = FMA(q, e, q);
  UINT odd = 0u - (quadrant & 1u);
  UINT result = (BITS(inverse) & odd) | (BITS(positive) & ~odd);
  result = result ^ ((BITS(t) ^ odd ^ BITS(x)) & 0x80000000u);
  result = SELECT(magnitude < 0x39000000u /* 2^-13 */, BITS(x), result);
  return FROM_BITS(SELECT(magnitude >= 0x7f800000u, 0x7fc00000u, result));
}

// --- arc tangent -----------------------------------------------------------------------------------------------------

/// atan(q + q_low) = t + t_low for q in [0, 1].
FUNCTION void atan_parts(float q, float q_low, OUT(FLOAT, t), OUT(FLOAT, t_low)) {
  FLOAT z = q * q;
  FLOAT p = FROM_BITS(0xbaecb7cdu /* -0.0018060148 */);
  p = FMA(p, z, FROM_BITS(0x3c33c548u /* 0.0109723285 */));
  p = FMA(p, z, FROM_BITS(0xbd002a72u /* -0.031290479 */));
  p = FMA(p, z, FROM_BITS(0x3d6de212u /* 0.0580769256 */));
  p = FMA(p, z, FROM_BITS(0xbdac4140u /* -0.0841088295 */));
  p = FMA(p, z, FROM_BITS(0x3de05b69u /* 0.109549351 */));
  p = FMA(p, z, FROM_BITS(0xbe12125fu /* -0.142648205 */));
  p = FMA(p, z, FROM_BITS(0x3e4cc928u /* 0.1999861 */));
  p = FMA(p, z, FROM_BITS(0xbeaaaaa0u /* -0.333333015 */));
  FLOAT qz = q * z;
  FLOAT half_z = FROM_BITS(0x3f000000u /* 0.5 */) * z;
  FLOAT change = FMA(-half_z, q_low, q_low);  // q_low / (1 + z), nearly
  FLOAT w = FMA(qz, p, change);
  FLOAT s = q + w;
  FLOAT s1 = s - q;
  t_low = w - s1;
  t = s;
}

/// For |x| > 1: pi/2 - atan(1 / |x|).
FUNCTION float ls_atan(float x) {
  UINT magnitude = BITS(x) & 0x7fffffffu;
  UINT clamped = SELECT(magnitude < 0x38800000u /* 2^-14 */, 0x38800000u, magnitude);
  clamped = SELECT(clamped > 0x4e800000u /* 2^30 */, 0x4e800000u, clamped);
  FLOAT n = FROM_BITS(SELECT(clamped > 0x3f800000u, 0x3f800000u, clamped));
  FLOAT d = FROM_BITS(SELECT(clamped > 0x3f800000u, clamped, 0x3f800000u));
  FLOAT y = reciprocal_estimate(d);
  FLOAT q0 = n * y;
  FLOAT rest = FMA(-q0, d, n);
  FLOAT q = FMA(rest, y, q0);
  FLOAT q_low = FMA(-q, d, n) * y;
  FLOAT t;
  FLOAT t_low;
  atan_parts(q, q_low, t, t_low);
  FLOAT s;
  FLOAT s_low;
  exact_sum_ordered(FROM_BITS(0x3fc90fdbu /* 1.57079637 */), -t, s, s_low);
  FLOAT low = s_low + (FROM_BITS(0xb33bbd2eu /* -4.37113883e-08 */) - t_low);
  FLOAT large = s + low;
  UINT result = SELECT(magnitude > 0x3f800000u, BITS(large), BITS(t));
  result = SELECT(magnitude < 0x39000000u /* 2^-13 */, magnitude, result);
  result = result | (BITS(x) & 0x80000000u);
  return FROM_BITS(SELECT(magnitude > 0x7f800000u, 0x7fc00000u, result));
}

/// The angle of the point (b, a): 0, pi/2 or pi, plus or minus the arc tangent of the smaller by the larger one. Zeros
/// and infinities as in C99's Annex F.
FUNCTION float ls_atan2(float a, float b) {
  UINT abs_a = BITS(a) & 0x7fffffffu;
  UINT abs_b = BITS(b) & 0x7fffffffu;
  UINT steep = 0u - ((abs_b - abs_a) >> 31);
  UINT left = 0u - (BITS(b) >> 31);
  UINT large = (abs_a & steep) | (abs_b & ~steep);
  UINT small = (abs_b & steep) | (abs_a & ~steep);
  // small / large = (q + q_low) 2^places, of significands
  FLOAT n = FROM_BITS((small & 0x007fffffu) | 0x3f800000u);
  FLOAT d = FROM_BITS((large & 0x007fffffu) | 0x3f800000u);
  int places = int(small >> 23) - int(large >> 23);
  FLOAT y = reciprocal_estimate(d);
  FLOAT q0 = n * y;
  FLOAT rest = FMA(-q0, d, n);
  FLOAT q = FMA(rest, y, q0);
  FLOAT q_low = FMA(-q, d, n) * y;
  int kept = SELECT(places < -40, -40, places);
  UINT scale = UINT(kept + 127) << 23;
  scale = SELECT(small < 0x00800000u, 0u, scale);
  scale = SELECT((large == 0x7f800000u) && (small < 0x7f800000u), 0u, scale);
  FLOAT t;
  FLOAT t_low;
  atan_parts(q * FROM_BITS(scale), q_low * FROM_BITS(scale), t, t_low);
  UINT flip = (steep ^ left) & 0x80000000u;
  UINT base = (0x3fc90fdbu /* pi/2 */ & steep) | (0x40490fdbu /* pi */ & left & ~steep);
  UINT base_low = (0xb33bbd2eu /* pi/2 */ & steep) | (0xb3bbbd2eu /* pi */ & left & ~steep);
  FLOAT s;
  FLOAT s_low;
  exact_sum_ordered(FROM_BITS(base), FROM_BITS(BITS(t) ^ flip), s, s_low);
  FLOAT low = s_low + (FROM_BITS(base_low) + FROM_BITS(BITS(t_low) ^ flip));
  FLOAT sum = s + low;
  // Far from the axis's right half nothing but the quotient is left.
  int biased = int(BITS(q) >> 23) + places;
  UINT quotient = SELECT(biased < 1, 0u, BITS(q) + (UINT(places) << 23));
  quotient = SELECT(scale == 0u, 0u, quotient);
  UINT result = SELECT(places < -30, quotient, BITS(sum));
  result = SELECT((steep | left) != 0u, BITS(sum), result);
  result = result | (BITS(a) & 0x80000000u);
  result = SELECT(abs_a > 0x7f800000u, 0x7fc00000u, result);
  return FROM_BITS(SELECT(abs_b > 0x7f800000u, 0x7fc00000u, result));
}

// --- arc sine and cosine ---------------------------------------------------------------------------------------------

/// asin(s) = t + t_low, where s is |x| below 1/2 and sqrt((1 - |x|) / 2) above.
FUNCTION void asin_parts(UINT magnitude, OUT(FLOAT, t), OUT(FLOAT, t_low)) {
  FLOAT a = FROM_BITS(magnitude);
  FLOAT half_rest = FMA(FROM_BITS(0xbf000000u /* -0.5 */), a, FROM_BITS(0x3f000000u /* 0.5 */));  // exact above 1/2
  FLOAT square = a * a;
  UINT above = SELECT(magnitude < 0x3f000000u /* 0.5 */, 0u, 0xffffffffu);
  FLOAT z = FROM_BITS((BITS(half_rest) & above) | (BITS(square) & ~above));
  FLOAT root = SQRT(half_rest);
  FLOAT rest = FMA(-root, root, half_rest);
  FLOAT divisor = FROM_BITS(SELECT(BITS(root) < 0x30800000u /* 2^-30 */, 0x30800000u, BITS(root)));
  FLOAT half_inverse = FROM_BITS(0x3f000000u /* 0.5 */) * reciprocal_estimate(divisor);
  FLOAT root_low = rest * half_inverse;
  FLOAT s = FROM_BITS((BITS(root) & above) | (magnitude & ~above));
  FLOAT s_low = FROM_BITS(BITS(root_low) & above);
  FLOAT p = FROM_BITS(0x3d2c6dfau /* 0.0420970693 */);
  p = FMA(p, z, FROM_BITS(0x3cc67529u /* 0.0242257882 */));
  p = FMA(p, z, FROM_BITS(0x3d3a33b8u /* 0.0454594791 */));
  p = FMA(p, z, FROM_BITS(0x3d99817fu /* 0.0749540254 */));
  p = FMA(p, z, FROM_BITS(0x3e2aaae2u /* 0.166667491 */));
  FLOAT sz = s * z;
  FLOAT w = FMA(sz, p, s_low);
  FLOAT sum = s + w;
  FLOAT sum1 = sum - s;
  t_low = w - sum1;
  t = sum;
}

FUNCTION float ls_asin(float x) {
  UINT magnitude = BITS(x) & 0x7fffffffu;
  FLOAT t;
  FLOAT t_low;
  asin_parts(magnitude, t, t_low);
  // pi/2 - 2 t
  FLOAT s;
  FLOAT s_low;
  exact_sum_ordered(FROM_BITS(0x3fc90fdbu /* 1.57079637 */), -(t + t), s, s_low);
  FLOAT low = s_low + FMA(FROM_BITS(0xc0000000u /* -2 */), t_low, FROM_BITS(0xb33bbd2eu /* -4.37113883e-08 */));
  FLOAT large = s + low;
  UINT result = SELECT(magnitude < 0x3f000000u /* 0.5 */, BITS(t), BITS(large));
  result = SELECT(magnitude < 0x39000000u /* 2^-13 */, magnitude, result);
  result = result | (BITS(x) & 0x80000000u);
  return FROM_BITS(SELECT(magnitude > 0x3f800000u /* 1 */, 0x7fc00000u, result));
}

/// pi/2 - asin(x) near 0, 2 asin(s) for large x, pi - 2 asin(s) for large negative x.
FUNCTION float ls_acos(float x) {
  UINT magnitude = BITS(x) & 0x7fffffffu;
  UINT negative = 0u - (BITS(x) >> 31);
  FLOAT t;
  FLOAT t_low;
  asin_parts(magnitude, t, t_low);
  UINT above = SELECT(magnitude < 0x3f000000u /* 0.5 */, 0u, 0xffffffffu);
  FLOAT twice = t + t;
  FLOAT twice_low = t_low + t_low;
  UINT flip = ~(negative & ~above) & 0x80000000u;  // subtracted but for small negative x
  FLOAT u = FROM_BITS(((BITS(twice) & above) | (BITS(t) & ~above)) ^ flip);
  FLOAT u_low = FROM_BITS(((BITS(twice_low) & above) | (BITS(t_low) & ~above)) ^ flip);
  UINT base = (0x40490fdbu /* pi */ & above) | (0x3fc90fdbu /* pi/2 */ & ~above);
  UINT base_low = (0xb3bbbd2eu /* pi */ & above) | (0xb33bbd2eu /* pi/2 */ & ~above);
  FLOAT s;
  FLOAT s_low;
  exact_sum_ordered(FROM_BITS(base), u, s, s_low);
  FLOAT low = s_low + (FROM_BITS(base_low) + u_low);
  FLOAT sum = s + low;
  UINT result = SELECT((above & ~negative) != 0u, BITS(twice), BITS(sum));
  return FROM_BITS(SELECT(magnitude > 0x3f800000u /* 1 */, 0x7fc00000u, result));
}
