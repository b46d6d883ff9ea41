// Sums and products of f32 that keep subnormals on devices that flush them: what accumulators are made of
// (docs/numerics.md section 1). In the kernel subset, see prelude.h.
//
// The device's own result is right unless an accumulator or the result is tiny; that is rare, and then integers compute
// it. FMA is fused, or integer_fma itself.

FUNCTION int leading_zeros(ULONG x) {
  UINT high = UINT(x >> 32);
  UINT word = SELECT(high != 0u, high, UINT(x));
  int zeros = SELECT(high != 0u, 0, 32);
  for (int half_width = 16; half_width > 0; half_width = half_width / 2) {
    bool empty = (word >> (32 - half_width)) == 0u;
    zeros = zeros + SELECT(empty, half_width, 0);
    word = SELECT(empty, word << half_width, word);
  }
  return SELECT(word == 0u, 64, zeros);
}

/// x * y + z, rounded once, subnormals kept, by integers.
FUNCTION float integer_fma(float x, float y, float z) {
  UINT abs_x = BITS(x) & 0x7fffffffu;
  UINT abs_y = BITS(y) & 0x7fffffffu;
  UINT abs_z = BITS(z) & 0x7fffffffu;
  if (abs_x >= 0x7f800000u || abs_y >= 0x7f800000u) {
    // A subnormal factor of infinity must not be read as zero.
    FLOAT x_factor = SELECT(abs_x - 1u < 0x007fffffu, FROM_BITS(BITS(x) | 0x00800000u), x);
    FLOAT y_factor = SELECT(abs_y - 1u < 0x007fffffu, FROM_BITS(BITS(y) | 0x00800000u), y);
    return x_factor * y_factor + z;
  }
  if (abs_z >= 0x7f800000u) return z;
  if (abs_x == 0u || abs_y == 0u) {
    UINT zero = BITS(z) & (BITS(x) ^ BITS(y)) & 0x80000000u;
    return FROM_BITS(SELECT(abs_z == 0u, zero, BITS(z)));
  }
  // Both terms as integers below 2^62, times powers of two.
  ULONG product = ULONG((abs_x & 0x007fffffu) | SELECT(abs_x >= 0x00800000u, 0x00800000u, 0u)) *
                  ULONG((abs_y & 0x007fffffu) | SELECT(abs_y >= 0x00800000u, 0x00800000u, 0u));
  ULONG addend = ULONG((abs_z & 0x007fffffu) | SELECT(abs_z >= 0x00800000u, 0x00800000u, 0u));
  int exponent = SELECT(abs_x >= 0x00800000u, int(abs_x >> 23), 1) + SELECT(abs_y >= 0x00800000u, int(abs_y >> 23), 1);
  int places = leading_zeros(product) - 2;
  product = product << places;
  exponent = exponent - 300 - places;
  int exponent_z = -2000;
  if (addend != ULONG(0)) {
    places = leading_zeros(addend) - 2;
    addend = addend << places;
    exponent_z = SELECT(abs_z >= 0x00800000u, int(abs_z >> 23), 1) - 150 - places;
  }
  UINT sign = (BITS(x) ^ BITS(y)) & 0x80000000u;
  bool same_sign = sign == (BITS(z) & 0x80000000u);
  bool swapped = exponent_z > exponent || (exponent_z == exponent && addend > product);
  ULONG larger = SELECT(swapped, addend, product);
  ULONG smaller = SELECT(swapped, product, addend);
  int distance = SELECT(swapped, exponent_z - exponent, exponent - exponent_z);
  distance = SELECT(distance > 63, 63, distance);
  exponent = SELECT(swapped, exponent_z, exponent);
  sign = SELECT(swapped, BITS(z) & 0x80000000u, sign);
  // What is shifted out stays as one bit far below the places where rounding looks.
  ULONG aligned = smaller >> distance;
  aligned = aligned | SELECT((aligned << distance) != smaller, ULONG(1), ULONG(0));
  ULONG sum = SELECT(same_sign, larger + aligned, larger - aligned);
  if (sum == ULONG(0)) return FROM_BITS(0u);
  places = leading_zeros(sum) - 1;
  sum = sum << places;
  exponent = exponent - places + 62 + 127;  // of the result, as stored
  int drop = SELECT(exponent < 1, 40 - exponent, 39);
  if (drop > 63) return FROM_BITS(sign);
  ULONG kept = sum >> drop;
  ULONG rest = sum - (kept << drop);
  ULONG half_unit = ULONG(1) << (drop - 1);
  bool up = rest > half_unit || (rest == half_unit && (kept & ULONG(1)) != ULONG(0));
  UINT result = UINT(kept) + SELECT(up, 1u, 0u) + (UINT(SELECT(exponent < 1, 0, exponent - 1)) << 23);
  result = SELECT(exponent > 254, 0x7f800000u, result);
  return FROM_BITS(result | sign);
}

/// Whether the magnitude is below the smallest normal number, and not zero.
FUNCTION bool is_subnormal(float x) {
  return (BITS(x) & 0x7fffffffu) - 1u < 0x007fffffu;
}

/// Whether a result may have been flushed, if it is not a true zero: its magnitude is the smallest normal or less.
FUNCTION bool is_tiny(float x) {
  return (BITS(x) & 0x7fffffffu) <= 0x00800000u;
}

FUNCTION bool is_zero(float x) {
  return (BITS(x) & 0x7fffffffu) == 0u;
}

/// x * y + z of normal (or zero) x and y.
FUNCTION float exact_fma(float x, float y, float z) {
  FLOAT result = FMA(x, y, z);
  if (is_subnormal(z) || (is_tiny(result) && !is_zero(x) && !is_zero(y))) return integer_fma(x, y, z);
  return result;
}

FUNCTION float exact_add(float x, float y) {
  FLOAT result = x + y;
  if (is_subnormal(x) || is_subnormal(y) || (is_tiny(result) && !is_zero(x) && !is_zero(y))) {
    return integer_fma(x, 1.0f, y);
  }
  return result;
}

FUNCTION float exact_mul(float x, float y) {
  FLOAT result = x * y;
  if (is_subnormal(x) || is_subnormal(y) || (is_tiny(result) && !is_zero(x) && !is_zero(y))) {
    return integer_fma(x, y, FROM_BITS(0x80000000u));
  }
  return result;
}
