// Activations in q8 numerics (docs/numerics.md section 14): 32 neighbours along k become codes of 8 bits and a scale.
// No guard: see prelude.h.

/// The scale of a block whose largest magnitude has the bits `largest`: a 127th of it, rounded up to 13 significant
/// bits, so that its products with a weight's scale are exact. Zero below the normal numbers; NaN if an element is no
/// finite number.
FUNCTION float q8_scale(UINT largest) {
  FLOAT part = FROM_BITS(largest) * FROM_BITS(0x3c010204u /* 1 / 127 */);
  UINT bits = (BITS(canonical_f32(part)) + 0x7ffu) & 0xfffff800u;
  return FROM_BITS(SELECT(largest < 0x7f800000u, bits, 0x7fc00000u));
}
/// x / scale to the nearest integer, of two the even one, -127 to 127; `inverse` is the correctly rounded 1 / scale, or
/// zero where the scale is zero or NaN. Adding 1.5 * 2^23 leaves the integer in the low bits.
FUNCTION int q8_code(float x, float inverse) {
  FLOAT shifted = FMA(x, inverse, FROM_BITS(0x4b400000u));
  return SELECT(inverse == FROM_BITS(0u), 0, int(BITS(shifted) - 0x4b400000u));
}
/// sum, and the products of four codes each of two words, for devices without an operation that does it.
FUNCTION int q8_dot4(UINT x, UINT y, int sum) {
  int products = signed_byte(x & 255u) * signed_byte(y & 255u);
  products += signed_byte(x >> 8 & 255u) * signed_byte(y >> 8 & 255u);
  products += signed_byte(x >> 16 & 255u) * signed_byte(y >> 16 & 255u);
  products += signed_byte(x >> 24) * signed_byte(y >> 24);
  return sum + products;
}
