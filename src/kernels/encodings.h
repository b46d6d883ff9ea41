// Elements of packed blocks (encodings.def): memory `at`, and the element counted from there. An encoding has three
// functions:
//   code_<name>    the integer that stands for an element
//   group_<name>   what its group (16 or 32 neighbours) has in common: value = scale * factor * code + offset * share,
//                  where factor and share are integers; without offsets share is 0
//   word_<name>    the element's value, as the word of its dtype. Blocks of floats (FLOATS) have this one alone
// Products of scales, factors and codes are exact (an f16 scale has 11 bits, a factor at most 7, a code 8), so that at
// most the addition rounds. No guard: see prelude.h.

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
FUNCTION void plain_group(OUT(int, factor), OUT(FLOAT, offset), OUT(int, share)) {
  factor = 1;
  offset = FROM_BITS(0u);
  share = 0;
}

FUNCTION int code_q8_0(MEMORY at, LONG element) {
  LONG block = (element >> 5) * LONG(34);
  return signed_byte(LOAD_U8(at, block + LONG(2) + (element & LONG(31))));
}
FUNCTION void group_q8_0(MEMORY at, LONG element, OUT(FLOAT, scale), OUT(int, factor), OUT(FLOAT, offset),
                         OUT(int, share)) {
  scale = half_at(at, (element >> 5) * LONG(34));
  plain_group(factor, offset, share);
}
FUNCTION UINT word_q8_0(MEMORY at, LONG element) {
  FLOAT scale, offset;
  int factor, share;
  group_q8_0(at, element, scale, factor, offset, share);
  return scaled_word(scale * float(factor), code_q8_0(at, element));
}

FUNCTION int code_q4_0(MEMORY at, LONG element) {
  LONG block = (element >> 5) * LONG(18);
  return nibble_of_32(at, block + LONG(2), element & LONG(31)) - 8;
}
FUNCTION void group_q4_0(MEMORY at, LONG element, OUT(FLOAT, scale), OUT(int, factor), OUT(FLOAT, offset),
                         OUT(int, share)) {
  scale = half_at(at, (element >> 5) * LONG(18));
  plain_group(factor, offset, share);
}
FUNCTION UINT word_q4_0(MEMORY at, LONG element) {
  FLOAT scale, offset;
  int factor, share;
  group_q4_0(at, element, scale, factor, offset, share);
  return scaled_word(scale * float(factor), code_q4_0(at, element));
}

FUNCTION int code_q4_1(MEMORY at, LONG element) {
  LONG block = (element >> 5) * LONG(20);
  return nibble_of_32(at, block + LONG(4), element & LONG(31));
}
FUNCTION void group_q4_1(MEMORY at, LONG element, OUT(FLOAT, scale), OUT(int, factor), OUT(FLOAT, offset),
                         OUT(int, share)) {
  LONG block = (element >> 5) * LONG(20);
  scale = half_at(at, block);
  factor = 1;
  offset = half_at(at, block + LONG(2));
  share = 1;
}
FUNCTION UINT word_q4_1(MEMORY at, LONG element) {
  FLOAT scale, offset;
  int factor, share;
  group_q4_1(at, element, scale, factor, offset, share);
  return shifted_word(scale * float(factor), code_q4_1(at, element), offset);
}

FUNCTION int code_q5_0(MEMORY at, LONG element) {
  LONG block = (element >> 5) * LONG(22);
  LONG i = element & LONG(31);
  return nibble_of_32(at, block + LONG(6), i) + fifth_bit(at, block + LONG(2), i) - 16;
}
FUNCTION void group_q5_0(MEMORY at, LONG element, OUT(FLOAT, scale), OUT(int, factor), OUT(FLOAT, offset),
                         OUT(int, share)) {
  scale = half_at(at, (element >> 5) * LONG(22));
  plain_group(factor, offset, share);
}
FUNCTION UINT word_q5_0(MEMORY at, LONG element) {
  FLOAT scale, offset;
  int factor, share;
  group_q5_0(at, element, scale, factor, offset, share);
  return scaled_word(scale * float(factor), code_q5_0(at, element));
}

FUNCTION int code_q5_1(MEMORY at, LONG element) {
  LONG block = (element >> 5) * LONG(24);
  LONG i = element & LONG(31);
  return nibble_of_32(at, block + LONG(8), i) + fifth_bit(at, block + LONG(4), i);
}
FUNCTION void group_q5_1(MEMORY at, LONG element, OUT(FLOAT, scale), OUT(int, factor), OUT(FLOAT, offset),
                         OUT(int, share)) {
  LONG block = (element >> 5) * LONG(24);
  scale = half_at(at, block);
  factor = 1;
  offset = half_at(at, block + LONG(2));
  share = 1;
}
FUNCTION UINT word_q5_1(MEMORY at, LONG element) {
  FLOAT scale, offset;
  int factor, share;
  group_q5_1(at, element, scale, factor, offset, share);
  return shifted_word(scale * float(factor), code_q5_1(at, element), offset);
}

FUNCTION int code_q2_k(MEMORY at, LONG element) {
  LONG block = (element >> 8) * LONG(84);
  LONG i = element & LONG(255);
  return two_bits_of_256(at, block + LONG(16), i);
}
FUNCTION void group_q2_k(MEMORY at, LONG element, OUT(FLOAT, scale), OUT(int, factor), OUT(FLOAT, offset),
                         OUT(int, share)) {
  LONG block = (element >> 8) * LONG(84);
  LONG i = element & LONG(255);
  UINT both = LOAD_U8(at, block + (i >> 4));
  scale = half_at(at, block + LONG(80));
  factor = int(both & 15u);
  offset = half_at(at, block + LONG(82));
  share = -int(both >> 4);
}
FUNCTION UINT word_q2_k(MEMORY at, LONG element) {
  FLOAT scale, offset;
  int factor, share;
  group_q2_k(at, element, scale, factor, offset, share);
  return shifted_word(scale * float(factor), code_q2_k(at, element), -(offset * float(-share)));
}

FUNCTION int code_q3_k(MEMORY at, LONG element) {
  LONG block = (element >> 8) * LONG(110);
  LONG i = element & LONG(255);
  UINT third = LOAD_U8(at, block + (i & LONG(31))) >> UINT(i >> 5) & 1u;
  return two_bits_of_256(at, block + LONG(32), i) - SELECT(third != 0u, 0, 4);
}
FUNCTION void group_q3_k(MEMORY at, LONG element, OUT(FLOAT, scale), OUT(int, factor), OUT(FLOAT, offset),
                         OUT(int, share)) {
  LONG block = (element >> 8) * LONG(110);
  LONG i = element & LONG(255);
  LONG number = i >> 4;
  UINT low = LOAD_U8(at, block + LONG(96) + (number & LONG(7))) >> UINT(number >> 3) * 4u & 15u;
  UINT high = LOAD_U8(at, block + LONG(104) + (number & LONG(3))) >> UINT(number >> 2) * 2u & 3u;
  plain_group(factor, offset, share);
  scale = half_at(at, block + LONG(108));
  factor = int(low | high << 4) - 32;
}
FUNCTION UINT word_q3_k(MEMORY at, LONG element) {
  FLOAT scale, offset;
  int factor, share;
  group_q3_k(at, element, scale, factor, offset, share);
  return scaled_word(scale * float(factor), code_q3_k(at, element));
}

FUNCTION int code_q4_k(MEMORY at, LONG element) {
  LONG block = (element >> 8) * LONG(144);
  LONG i = element & LONG(255);
  return four_bits_of_256(at, block + LONG(16), i);
}
FUNCTION void group_q4_k(MEMORY at, LONG element, OUT(FLOAT, scale), OUT(int, factor), OUT(FLOAT, offset),
                         OUT(int, share)) {
  LONG block = (element >> 8) * LONG(144);
  LONG i = element & LONG(255);
  scale = half_at(at, block);
  factor = scale_of_six_bits(at, block + LONG(4), i >> 5);
  offset = half_at(at, block + LONG(2));
  share = -minimum_of_six_bits(at, block + LONG(4), i >> 5);
}
FUNCTION UINT word_q4_k(MEMORY at, LONG element) {
  FLOAT scale, offset;
  int factor, share;
  group_q4_k(at, element, scale, factor, offset, share);
  return shifted_word(scale * float(factor), code_q4_k(at, element), -(offset * float(-share)));
}

FUNCTION int code_q5_k(MEMORY at, LONG element) {
  LONG block = (element >> 8) * LONG(176);
  LONG i = element & LONG(255);
  UINT fifth = LOAD_U8(at, block + LONG(16) + (i & LONG(31))) >> UINT(i >> 5) & 1u;
  return four_bits_of_256(at, block + LONG(48), i) + int(fifth << 4);
}
FUNCTION void group_q5_k(MEMORY at, LONG element, OUT(FLOAT, scale), OUT(int, factor), OUT(FLOAT, offset),
                         OUT(int, share)) {
  LONG block = (element >> 8) * LONG(176);
  LONG i = element & LONG(255);
  scale = half_at(at, block);
  factor = scale_of_six_bits(at, block + LONG(4), i >> 5);
  offset = half_at(at, block + LONG(2));
  share = -minimum_of_six_bits(at, block + LONG(4), i >> 5);
}
FUNCTION UINT word_q5_k(MEMORY at, LONG element) {
  FLOAT scale, offset;
  int factor, share;
  group_q5_k(at, element, scale, factor, offset, share);
  return shifted_word(scale * float(factor), code_q5_k(at, element), -(offset * float(-share)));
}

FUNCTION int code_q6_k(MEMORY at, LONG element) {
  LONG block = (element >> 8) * LONG(210);
  LONG i = element & LONG(255);
  UINT low = LOAD_U8(at, block + (i >> 7) * LONG(64) + (i & LONG(63))) >> UINT((i & LONG(127)) >> 6) * 4u & 15u;
  return int(low) + two_bits_of_256(at, block + LONG(128), i) * 16 - 32;
}
FUNCTION void group_q6_k(MEMORY at, LONG element, OUT(FLOAT, scale), OUT(int, factor), OUT(FLOAT, offset),
                         OUT(int, share)) {
  LONG block = (element >> 8) * LONG(210);
  LONG i = element & LONG(255);
  plain_group(factor, offset, share);
  scale = half_at(at, block + LONG(208));
  factor = signed_byte(LOAD_U8(at, block + LONG(192) + (i >> 4)));
}
FUNCTION UINT word_q6_k(MEMORY at, LONG element) {
  FLOAT scale, offset;
  int factor, share;
  group_q6_k(at, element, scale, factor, offset, share);
  return scaled_word(scale * float(factor), code_q6_k(at, element));
}

/// The levels of IQ4_NL and IQ4_XS by their 4-bit codes: unevenly spaced, closest around 0.
FUNCTION int uneven_level(int code) {
  CONSTANT_TABLE(int, levels, 16) = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  return levels[TABLE_INDEX(code)];
}
FUNCTION int code_iq4_nl(MEMORY at, LONG element) {
  LONG block = (element >> 5) * LONG(18);
  return uneven_level(nibble_of_32(at, block + LONG(2), element & LONG(31)));
}
FUNCTION void group_iq4_nl(MEMORY at, LONG element, OUT(FLOAT, scale), OUT(int, factor), OUT(FLOAT, offset),
                           OUT(int, share)) {
  scale = half_at(at, (element >> 5) * LONG(18));
  plain_group(factor, offset, share);
}
FUNCTION UINT word_iq4_nl(MEMORY at, LONG element) {
  FLOAT scale, offset;
  int factor, share;
  group_iq4_nl(at, element, scale, factor, offset, share);
  return scaled_word(scale * float(factor), code_iq4_nl(at, element));
}

FUNCTION int code_iq4_xs(MEMORY at, LONG element) {
  LONG block = (element >> 8) * LONG(136);
  LONG i = element & LONG(255);
  return uneven_level(nibble_of_32(at, block + LONG(8) + (i >> 5) * LONG(16), i & LONG(31)));
}
FUNCTION void group_iq4_xs(MEMORY at, LONG element, OUT(FLOAT, scale), OUT(int, factor), OUT(FLOAT, offset),
                           OUT(int, share)) {
  LONG block = (element >> 8) * LONG(136);
  LONG i = element & LONG(255);
  LONG number = i >> 5;
  UINT low = LOAD_U8(at, block + LONG(4) + (number >> 1)) >> UINT(number & LONG(1)) * 4u & 15u;
  UINT high = LOAD_U16(at, (block >> 1) + LONG(1)) >> UINT(number) * 2u & 3u;
  plain_group(factor, offset, share);
  scale = half_at(at, block);
  factor = int(low | high << 4) - 32;
}
FUNCTION UINT word_iq4_xs(MEMORY at, LONG element) {
  FLOAT scale, offset;
  int factor, share;
  group_iq4_xs(at, element, scale, factor, offset, share);
  return scaled_word(scale * float(factor), code_iq4_xs(at, element));
}

/// Twice the size of an e2m1 number, by its three bits: 0, 1, 2, 3, 4, 6, 8, 12.
FUNCTION int e2m1_level(UINT size) {
  return int(SELECT(size < 5u, size, SELECT(size == 5u, 6u, SELECT(size == 6u, 8u, 12u))));
}
FUNCTION int code_mxfp4(MEMORY at, LONG element) {
  LONG block = (element >> 5) * LONG(17);
  UINT code = UINT(nibble_of_32(at, block + LONG(1), element & LONG(31)));
  int level = e2m1_level(code & 7u);
  return SELECT((code & 8u) != 0u, -level, level);
}
/// 2^(byte - 128), canonical: zero where that is no number above the smallest normal one.
FUNCTION void group_mxfp4(MEMORY at, LONG element, OUT(FLOAT, scale), OUT(int, factor), OUT(FLOAT, offset),
                          OUT(int, share)) {
  UINT power = LOAD_U8(at, (element >> 5) * LONG(17));
  scale = FROM_BITS(SELECT(power < 3u, 0u, (power - 1u) << 23));
  plain_group(factor, offset, share);
}
/// The exponents of scale and level are added as integers: the power of two alone may be smaller than any normal number.
FUNCTION UINT word_mxfp4(MEMORY at, LONG element) {
  LONG block = (element >> 5) * LONG(17);
  UINT code = UINT(nibble_of_32(at, block + LONG(1), element & LONG(31)));
  UINT level = BITS(float(e2m1_level(code & 7u)));
  int exponent = int(level >> 23) + int(LOAD_U8(at, block)) - 128;
  UINT sign = (code & 8u) << 28;
  UINT number = UINT(exponent) << 23 | (level & 0x7fffffu);
  UINT magnitude = SELECT(exponent > 254, 0x7f800000u, SELECT(exponent < 1, 0u, number));
  return BITS(canonical_f32(FROM_BITS(SELECT((code & 7u) == 0u, 0u, magnitude | sign))));
}

/// Floats of 8 bits, by their bits: 4 of them exponent (no infinities; all ones are NaN), or 5, as f16's upper halves.
FUNCTION float e4m3_value(UINT code) {
  UINT size = code & 127u;
  UINT normal = (size << 20) + 0x3c000000u;
  UINT tiny = BITS(float(int(size)) * FROM_BITS(0x3b000000u /* 2^-9 */));
  UINT magnitude = SELECT(size == 127u, 0x7fc00000u, SELECT(size < 8u, tiny, normal));
  return FROM_BITS(magnitude | (code & 128u) << 24);
}
FUNCTION float e5m2_value(UINT code) {
  return decode_f16(code << 8);
}
/// A scale that starts at a byte that 4 divides, times the float: rounded once.
FUNCTION UINT scaled_float_word(MEMORY at, LONG byte, float value) {
  FLOAT product = operand_f32(FROM_BITS(LOAD_U32(at, byte >> 2))) * value;
  return BITS(canonical_f32(product));
}
FUNCTION UINT word_e4m3(MEMORY at, LONG element) {
  LONG block = (element >> 7) * LONG(132);
  return scaled_float_word(at, block, e4m3_value(LOAD_U8(at, block + LONG(4) + (element & LONG(127)))));
}
FUNCTION UINT word_e4m3_rows(MEMORY at, LONG element) {
  return word_e4m3(at, element);
}
FUNCTION UINT word_e4m3_squares(MEMORY at, LONG element) {
  return word_e4m3(at, element);
}
FUNCTION UINT word_e5m2(MEMORY at, LONG element) {
  LONG block = (element >> 7) * LONG(132);
  return scaled_float_word(at, block, e5m2_value(LOAD_U8(at, block + LONG(4) + (element & LONG(127)))));
}
