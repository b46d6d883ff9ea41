// f64 sine and cosine and the reduction of their argument, for the full range. In the kernel subset: see prelude.h.
// tools/fit_f64.py prints the coefficients.

/// a = (quadrant) pi/2 + y + y_low for 0 <= a <= 2^30, |y| <= pi/4.
FUNCTION void reduce_small(double a, OUT(DOUBLE, y), OUT(DOUBLE, y_low), OUT(ULONG, quadrant)) {
  DOUBLE t = FMA64(a, FROM_BITS64(ULONG(0x3fe45f306dc9c883) /* 0.63661977 */), 6755399441055744.0 /* 1.5 * 2^52 */);
  DOUBLE k = t - 6755399441055744.0;
  quadrant = BITS64(t);
  DOUBLE y1 = FMA64(k, FROM_BITS64(ULONG(0xbff921fb54442d18) /* -1.57079633 */), a);  // exact
  DOUBLE p = k * FROM_BITS64(ULONG(0xbc91a62633145c07) /* -6.123234e-17 */);
  DOUBLE p_low = FMA64(k, FROM_BITS64(ULONG(0xbc91a62633145c07) /* -6.123234e-17 */), -p);
  DOUBLE y2 = y1 + p;  // y2 + e = y1 + p
  DOUBLE b = y2 - y1;
  DOUBLE e1 = y2 - b;
  DOUBLE e2 = y1 - e1;
  DOUBLE e3 = p - b;
  DOUBLE e = e2 + e3;
  DOUBLE l = FMA64(k, FROM_BITS64(ULONG(0x391f1976b7ed8fbc) /* 1.4973849e-33 */), p_low) + e;
  y = y2 + l;
  DOUBLE f = y - y2;
  y_low = l - f;
}

/// Upper half of the product of two 64-bit words, by 32-bit halves (which vectorise).
FUNCTION ULONG multiply_high(ULONG x, ULONG y) {
  ULONG mask = ULONG(0x00000000ffffffff);
  ULONG low = (x & mask) * (y & mask);
  ULONG cross = (x >> 32) * (y & mask) + (low >> 32);
  ULONG other = (x & mask) * (y >> 32) + (cross & mask);
  return (x >> 32) * (y >> 32) + (cross >> 32) + (other >> 32);
}

FUNCTION double double_of_word(ULONG word) {  // below 2^32
  return FROM_BITS64(word | ULONG(0x4330000000000000)) - 4503599627370496.0 /* 2^52 */;
}

/// The same for 2^30 < a < inf: the bits of a * 2/pi that matter, by integers (Payne and Hanek).
FUNCTION void reduce_large(ULONG magnitude, OUT(DOUBLE, y), OUT(DOUBLE, y_low), OUT(ULONG, quadrant)) {
  // 0, then 2/pi in words of 64 bits
  CONSTANT_TABLE(ULONG, table, 21) = {ULONG(0),
                                      ULONG(0xa2f9836e4e441529),
                                      ULONG(0xfc2757d1f534ddc0),
                                      ULONG(0xdb6295993c439041),
                                      ULONG(0xfe5163abdebbc561),
                                      ULONG(0xb7246e3a424dd2e0),
                                      ULONG(0x06492eea09d1921c),
                                      ULONG(0xfe1deb1cb129a73e),
                                      ULONG(0xe88235f52ebb4484),
                                      ULONG(0xe99c7026b45f7e41),
                                      ULONG(0x3991d639835339f4),
                                      ULONG(0x9c845f8bbdf9283b),
                                      ULONG(0x1ff897ffde05980f),
                                      ULONG(0xef2f118b5a0a6d1f),
                                      ULONG(0x6d367ecf27cb09b7),
                                      ULONG(0x4f463f669e5fea2d),
                                      ULONG(0x7527bac7ebe5f17b),
                                      ULONG(0x3d0739f78a5292ea),
                                      ULONG(0x6bfb5fb11f8d5d08),
                                      ULONG(0x56033046fc7b6bab),
                                      ULONG(0xf0cfbc209af4361d)};
  ULONG m = (magnitude & ULONG(0x000fffffffffffff)) | ULONG(0x0010000000000000);
  ULONG exponent = magnitude >> 52;
  // The bits of 2/pi above these give whole turns. Clamped, for lanes whose result is not used.
  ULONG first_bit = SELECT(exponent < ULONG(1053), ULONG(1053), exponent) - ULONG(1013);
  ULONG index = first_bit >> 6;
  index = SELECT(index > ULONG(17), ULONG(17), index);
  ULONG shift = first_bit & ULONG(63);
  ULONG complement = ULONG(63) - shift;
  ULONG w0 = (table[TABLE_INDEX(index)] << shift) | ((table[TABLE_INDEX(index + ULONG(1))] >> 1) >> complement);
  ULONG w1 = (table[TABLE_INDEX(index + ULONG(1))] << shift) | ((table[TABLE_INDEX(index + ULONG(2))] >> 1) >> complement);
  ULONG w2 = (table[TABLE_INDEX(index + ULONG(2))] << shift) | ((table[TABLE_INDEX(index + ULONG(3))] >> 1) >> complement);
  // high:low = m * (w0:w1:w2) / 2^64, modulo 4 quadrants in 128 bits
  ULONG low = m * w1;
  ULONG high = m * w0 + multiply_high(m, w1);
  ULONG low_sum = low + multiply_high(m, w2);
  high = high + SELECT(low_sum < low, ULONG(1), ULONG(0));
  quadrant = (high + ULONG(0x2000000000000000)) >> 62;
  ULONG fraction = high - (quadrant << 62);
  ULONG sign = fraction & ULONG(0x8000000000000000);
  ULONG negated_low = ULONG(0) - low_sum;
  ULONG negated_high = ULONG(0) - fraction - SELECT(low_sum != ULONG(0), ULONG(1), ULONG(0));
  ULONG abs_high = SELECT(sign != ULONG(0), negated_high, fraction);
  ULONG abs_low = SELECT(sign != ULONG(0), negated_low, low_sum);
  DOUBLE g = double_of_word(abs_high >> 32) * FROM_BITS64(ULONG(0x3e10000000000000) /* 2^-30 */);
  DOUBLE f2 = double_of_word(abs_high & ULONG(0x00000000ffffffff));
  DOUBLE f3 = double_of_word(abs_low >> 32);
  DOUBLE f4 = double_of_word(abs_low & ULONG(0x00000000ffffffff));
  DOUBLE r = FMA64(f2, FROM_BITS64(ULONG(0x3c10000000000000) /* 2^-62 */), g);
  DOUBLE d = g - r;
  DOUBLE r_low = FMA64(f2, FROM_BITS64(ULONG(0x3c10000000000000) /* 2^-62 */), d);
  r_low = FMA64(f3, FROM_BITS64(ULONG(0x3a10000000000000) /* 2^-94 */), r_low);
  r_low = FMA64(f4, FROM_BITS64(ULONG(0x3810000000000000) /* 2^-126 */), r_low);
  DOUBLE p = r * FROM_BITS64(ULONG(0x3ff921fb54442d18) /* 1.57079633 */);
  DOUBLE p_low = FMA64(r, FROM_BITS64(ULONG(0x3ff921fb54442d18) /* 1.57079633 */), -p);
  p_low = FMA64(r, FROM_BITS64(ULONG(0x3c91a62633145c07) /* 6.123234e-17 */), p_low);
  p_low = FMA64(r_low, FROM_BITS64(ULONG(0x3ff921fb54442d18) /* 1.57079633 */), p_low);
  DOUBLE sum = p + p_low;  // next to a multiple of pi/2, p may hold few bits or none
  DOUBLE p1 = sum - p;
  DOUBLE sum_low = p_low - p1;
  y = FROM_BITS64(BITS64(sum) ^ sign);
  y_low = FROM_BITS64(BITS64(sum_low) ^ sign);
}

/// sin(y + y_low) = high + low to 2^-56 for |y| <= pi/4.
FUNCTION void sin_parts(double y, double y_low, OUT(DOUBLE, high), OUT(DOUBLE, low)) {
  DOUBLE z = y * y;
  DOUBLE p = FROM_BITS64(ULONG(0xbd6ab179a62d26ed) /* -7.5866815e-13 */);
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3de61217ea9b7ed1) /* 1.60585314e-10 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0xbe5ae64541249fb1) /* -2.50521062e-08 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3ec71de3a54604ea) /* 2.75573192e-06 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0xbf2a01a01a019936) /* -0.000198412698 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3f81111111111110) /* 0.00833333333 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0xbfc5555555555555) /* -0.166666667 */));
  DOUBLE rest = FMA64(z * -0.5, y_low, y_low);
  DOUBLE yz = y * z;
  DOUBLE v = FMA64(yz, p, rest);
  high = y + v;
  DOUBLE rounded = high - y;
  low = v - rounded;
}

FUNCTION void cos_parts(double y, double y_low, OUT(DOUBLE, high), OUT(DOUBLE, low)) {
  DOUBLE z = y * y;
  DOUBLE z_low = FMA64(y, y, -z);
  DOUBLE p = FROM_BITS64(ULONG(0x3d2ab7827bbeebe6) /* 4.74586322e-14 */);
  p = FMA64(p, z, FROM_BITS64(ULONG(0xbda9394b9b5db2a4) /* -1.14704607e-11 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3e21eed8deb60c70) /* 2.08767558e-09 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0xbe927e4fb7712b6b) /* -2.75573192e-07 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3efa01a01a019d09) /* 2.48015873e-05 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0xbf56c16c16c16c16) /* -0.00138888889 */));
  p = FMA64(p, z, FROM_BITS64(ULONG(0x3fa5555555555555) /* 0.0416666667 */));
  DOUBLE half_z = z * 0.5;
  DOUBLE w = 1.0 - half_z;
  DOUBLE w1 = 1.0 - w;
  DOUBLE w_low = w1 - half_z;
  DOUBLE c = FMA64(z_low, -0.5, w_low);
  c = FMA64(-y, y_low, c);
  DOUBLE z2 = z * z;
  c = FMA64(z2, p, c);
  high = w + c;
  DOUBLE rounded = high - w;
  low = c - rounded;
}

FUNCTION double sin_cos_result(double y, double y_low, ULONG quadrant, ULONG sign, ULONG magnitude) {
  DOUBLE s;
  DOUBLE c;
  DOUBLE low;  // rounded away
  sin_parts(y, y_low, s, low);
  cos_parts(y, y_low, c, low);
  ULONG sine = BITS64(s);
  ULONG cosine = BITS64(c);
  ULONG odd = ULONG(0) - (quadrant & ULONG(1));
  ULONG result = (cosine & odd) | (sine & ~odd);
  result = result ^ ((quadrant & ULONG(2)) << 62) ^ sign;
  ULONG tiny = SIGN_MASK64(magnitude - ULONG(0x3e40000000000000) /* 2^-27 */);  // sin x = x
  tiny = tiny & ~odd;
  result = ((magnitude | sign) & tiny) | (result & ~tiny);
  result = SELECT(magnitude >= ULONG(0x7ff0000000000000), ULONG(0x7ff8000000000000), result);
  return FROM_BITS64(result);
}

FUNCTION void reduce(ULONG magnitude, OUT(DOUBLE, y), OUT(DOUBLE, y_low), OUT(ULONG, quadrant)) {
  DOUBLE y0;
  DOUBLE low0;
  ULONG quadrant0;
  DOUBLE y1;
  DOUBLE low1;
  ULONG quadrant1;
  reduce_small(FROM_BITS64(magnitude), y0, low0, quadrant0);
  reduce_large(magnitude, y1, low1, quadrant1);
  ULONG large = SIGN_MASK64(ULONG(0x41d0000000000000) /* 2^30 */ - magnitude);
  y = FROM_BITS64((BITS64(y1) & large) | (BITS64(y0) & ~large));
  y_low = FROM_BITS64((BITS64(low1) & large) | (BITS64(low0) & ~large));
  quadrant = (quadrant1 & large) | (quadrant0 & ~large);
}

FUNCTION double ls_sin(double x) {
  ULONG magnitude = BITS64(x) & ULONG(0x7fffffffffffffff);
  DOUBLE y;
  DOUBLE y_low;
  ULONG quadrant;
  reduce(magnitude, y, y_low, quadrant);
  return sin_cos_result(y, y_low, quadrant, BITS64(x) & ULONG(0x8000000000000000), magnitude);
}

FUNCTION double ls_cos(double x) {
  ULONG magnitude = BITS64(x) & ULONG(0x7fffffffffffffff);
  DOUBLE y;
  DOUBLE y_low;
  ULONG quadrant;
  reduce(magnitude, y, y_low, quadrant);
  return sin_cos_result(y, y_low, quadrant + ULONG(1), ULONG(0), magnitude);
}

// For |x| <= 2^30 (and NaN) only, where they give the bits of ls_sin and ls_cos faster.

FUNCTION double ls_sin_small(double x) {
  ULONG magnitude = BITS64(x) & ULONG(0x7fffffffffffffff);
  DOUBLE y;
  DOUBLE y_low;
  ULONG quadrant;
  reduce_small(FROM_BITS64(magnitude), y, y_low, quadrant);
  return sin_cos_result(y, y_low, quadrant, BITS64(x) & ULONG(0x8000000000000000), magnitude);
}

FUNCTION double ls_cos_small(double x) {
  ULONG magnitude = BITS64(x) & ULONG(0x7fffffffffffffff);
  DOUBLE y;
  DOUBLE y_low;
  ULONG quadrant;
  reduce_small(FROM_BITS64(magnitude), y, y_low, quadrant);
  return sin_cos_result(y, y_low, quadrant + ULONG(1), ULONG(0), magnitude);
}
