// Elements of packed blocks (encodings.def), as the words of their dtype. A row's function is all that backends need:
// memory `at`, and the element counted from there. Products of scales and codes are exact (an f16 scale has 11 bits, a scale
// of a group at most 7, a code 8), so that at most the last subtraction or addition rounds. No guard: see prelude.h.

/// 4-bit code i of 32 in 16 bytes: those of the first half are the low ones.
FUNCTION int nibble_of_32(MEMORY at, LONG first, LONG i) {
  UINT both = LOAD_U8(at, first + (i & LONG(15)));
  return int(SELECT(i < LONG(16), both & 15u, both >> 4));
}
/// Bit i of 32, as the fifth one of a code.
FUNCTION int fifth_bit(MEMORY at, LONG first, LONG i) {
  return int((LOAD_U8(at, first + (i >> 3)) >> UINT(i & LONG(7)) & 1u) << 4);
}
/// 2-bit code i of 256 in 64 bytes, of which 32 hold 128 in four layers.
FUNCTION int two_bits_of_256(MEMORY at, LONG first, LONG i) {
  return int(LOAD_U8(at, first + (i >> 7) * LONG(32) + (i & LONG(31))) >> UINT((i & LONG(127)) >> 5) * 2u & 3u);
}
/// 4-bit code i of 256 in 128 bytes, of which 32 hold 64 in two layers.
FUNCTION int four_bits_of_256(MEMORY at, LONG first, LONG i) {
  return int(LOAD_U8(at, first + (i >> 6) * LONG(32) + (i & LONG(31))) >> UINT((i & LONG(63)) >> 5) * 4u & 15u);
}
/// The scales (bytes 0, 4, 8) and minima (4, 8) of the eight groups of Q4_K and Q5_K, 6 bits each in 12 bytes.
FUNCTION int scale_of_six_bits(MEMORY at, LONG first, LONG group) {
  UINT low = LOAD_U8(at, first + SELECT(group < LONG(4), group, group + LONG(4)));
  UINT high = LOAD_U8(at, first + SELECT(group < LONG(4), group, group - LONG(4)));
  return int(SELECT(group < LONG(4), low & 63u, (low & 15u) | (high >> 6) << 4));
}
FUNCTION int minimum_of_six_bits(MEMORY at, LONG first, LONG group) {
  UINT own = LOAD_U8(at, first + group + LONG(4));
  UINT high = LOAD_U8(at, first + group);
  return int(SELECT(group < LONG(4), own & 63u, own >> 4 | (high >> 6) << 4));
}
/// Bits of a byte as a number from -128 to 127.
FUNCTION int signed_byte(UINT byte) { return int(byte ^ 128u) - 128; }
/// The f16 number that starts at a byte of even number.
FUNCTION float half_at(MEMORY at, LONG byte) { return decode_f16(LOAD_U16(at, byte >> 1)); }
/// scale * code, and scale * code + offset: the products are exact, so it does not matter whether they are fused.
FUNCTION UINT scaled_word(float scale, int code) { return BITS(canonical_f32(scale * float(code))); }
FUNCTION UINT shifted_word(float scale, int code, float offset) {
  FLOAT product = scale * float(code);
  FLOAT sum = product + offset;
  return BITS(canonical_f32(sum));
}

FUNCTION UINT word_q8_0(MEMORY at, LONG element) {
  LONG block = (element >> 5) * LONG(34);
  return scaled_word(half_at(at, block), signed_byte(LOAD_U8(at, block + LONG(2) + (element & LONG(31)))));
}
FUNCTION UINT word_q4_0(MEMORY at, LONG element) {
  LONG block = (element >> 5) * LONG(18);
  return scaled_word(half_at(at, block), nibble_of_32(at, block + LONG(2), element & LONG(31)) - 8);
}
FUNCTION UINT word_q4_1(MEMORY at, LONG element) {
  LONG block = (element >> 5) * LONG(20);
  return shifted_word(half_at(at, block), nibble_of_32(at, block + LONG(4), element & LONG(31)),
                      half_at(at, block + LONG(2)));
}
FUNCTION UINT word_q5_0(MEMORY at, LONG element) {
  LONG block = (element >> 5) * LONG(22);
  LONG i = element & LONG(31);
  int code = nibble_of_32(at, block + LONG(6), i) + fifth_bit(at, block + LONG(2), i);
  return scaled_word(half_at(at, block), code - 16);
}
FUNCTION UINT word_q5_1(MEMORY at, LONG element) {
  LONG block = (element >> 5) * LONG(24);
  LONG i = element & LONG(31);
  int code = nibble_of_32(at, block + LONG(8), i) + fifth_bit(at, block + LONG(4), i);
  return shifted_word(half_at(at, block), code, half_at(at, block + LONG(2)));
}
FUNCTION UINT word_q2_k(MEMORY at, LONG element) {
  LONG block = (element >> 8) * LONG(84);
  LONG i = element & LONG(255);
  UINT both = LOAD_U8(at, block + (i >> 4));
  FLOAT scale = half_at(at, block + LONG(80)) * float(int(both & 15u));
  FLOAT offset = -(half_at(at, block + LONG(82)) * float(int(both >> 4)));
  return shifted_word(scale, two_bits_of_256(at, block + LONG(16), i), offset);
}
FUNCTION UINT word_q3_k(MEMORY at, LONG element) {
  LONG block = (element >> 8) * LONG(110);
  LONG i = element & LONG(255);
  LONG group = i >> 4;
  UINT low = LOAD_U8(at, block + LONG(96) + (group & LONG(7))) >> UINT(group >> 3) * 4u & 15u;
  UINT high = LOAD_U8(at, block + LONG(104) + (group & LONG(3))) >> UINT(group >> 2) * 2u & 3u;
  UINT third = LOAD_U8(at, block + (i & LONG(31))) >> UINT(i >> 5) & 1u;
  FLOAT scale = half_at(at, block + LONG(108)) * float(int(low | high << 4) - 32);
  return scaled_word(scale, two_bits_of_256(at, block + LONG(32), i) - SELECT(third != 0u, 0, 4));
}
FUNCTION UINT word_q4_k(MEMORY at, LONG element) {
  LONG block = (element >> 8) * LONG(144);
  LONG i = element & LONG(255);
  FLOAT scale = half_at(at, block) * float(scale_of_six_bits(at, block + LONG(4), i >> 5));
  FLOAT offset = -(half_at(at, block + LONG(2)) * float(minimum_of_six_bits(at, block + LONG(4), i >> 5)));
  return shifted_word(scale, four_bits_of_256(at, block + LONG(16), i), offset);
}
FUNCTION UINT word_q5_k(MEMORY at, LONG element) {
  LONG block = (element >> 8) * LONG(176);
  LONG i = element & LONG(255);
  FLOAT scale = half_at(at, block) * float(scale_of_six_bits(at, block + LONG(4), i >> 5));
  FLOAT offset = -(half_at(at, block + LONG(2)) * float(minimum_of_six_bits(at, block + LONG(4), i >> 5)));
  UINT fifth = LOAD_U8(at, block + LONG(16) + (i & LONG(31))) >> UINT(i >> 5) & 1u;
  return shifted_word(scale, four_bits_of_256(at, block + LONG(48), i) + int(fifth << 4), offset);
}
FUNCTION UINT word_q6_k(MEMORY at, LONG element) {
  LONG block = (element >> 8) * LONG(210);
  LONG i = element & LONG(255);
  UINT low = LOAD_U8(at, block + (i >> 7) * LONG(64) + (i & LONG(63))) >> UINT((i & LONG(127)) >> 6) * 4u & 15u;
  int code = int(low) + two_bits_of_256(at, block + LONG(128), i) * 16 - 32;
  FLOAT scale = half_at(at, block + LONG(208)) * float(signed_byte(LOAD_U8(at, block + LONG(192) + (i >> 4))));
  return scaled_word(scale, code);
}

/// The levels of IQ4_NL and IQ4_XS by their 4-bit codes: unevenly spaced, closest around 0.
FUNCTION int uneven_level(int code) {
  CONSTANT_TABLE(int, levels, 16) = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  return levels[TABLE_INDEX(code)];
}
FUNCTION UINT word_iq4_nl(MEMORY at, LONG element) {
  LONG block = (element >> 5) * LONG(18);
  return scaled_word(half_at(at, block), uneven_level(nibble_of_32(at, block + LONG(2), element & LONG(31))));
}
FUNCTION UINT word_iq4_xs(MEMORY at, LONG element) {
  LONG block = (element >> 8) * LONG(136);
  LONG i = element & LONG(255);
  LONG group = i >> 5;
  UINT low = LOAD_U8(at, block + LONG(4) + (group >> 1)) >> UINT(group & LONG(1)) * 4u & 15u;
  UINT high = LOAD_U16(at, (block >> 1) + LONG(1)) >> UINT(group) * 2u & 3u;
  FLOAT scale = half_at(at, block) * float(int(low | high << 4) - 32);
  return scaled_word(scale, uneven_level(nibble_of_32(at, block + LONG(8) + group * LONG(16), i & LONG(31))));
}
/// e2m1 doubled (0, 1, 2, 3, 4, 6, 8, 12) times 2^(byte - 128), whose exponents are added as integers: the power of two
/// alone may be smaller than any normal number.
FUNCTION UINT word_mxfp4(MEMORY at, LONG element) {
  LONG block = (element >> 5) * LONG(17);
  UINT code = UINT(nibble_of_32(at, block + LONG(1), element & LONG(31)));
  UINT size = code & 7u;
  UINT level = BITS(float(int(SELECT(size < 5u, size, SELECT(size == 5u, 6u, SELECT(size == 6u, 8u, 12u))))));
  int exponent = int(level >> 23) + int(LOAD_U8(at, block)) - 128;
  UINT sign = (code & 8u) << 28;
  UINT number = UINT(exponent) << 23 | (level & 0x7fffffu);
  UINT magnitude = SELECT(exponent > 254, 0x7f800000u, SELECT(exponent < 1, 0u, number));
  return BITS(canonical_f32(FROM_BITS(SELECT(size == 0u, 0u, magnitude | sign))));
}
