// Elements of packed blocks (encodings.def), as the words of their dtype. A row's function is all that backends need:
// memory `at`, and the element counted from there. No guard: see prelude.h.

/// Exact: 11 bits times 8. A scale that is no number makes the one NaN, or an infinity.
FUNCTION UINT word_q8_0(MEMORY at, LONG element) {
  LONG block = element >> 5;
  UINT scale = LOAD_U16(at, block * LONG(17));
  UINT byte = LOAD_U8(at, block * LONG(34) + LONG(2) + (element & LONG(31)));
  int code = int(byte ^ 128u) - 128;
  return BITS(canonical_f32(decode_f16(scale) * float(code)));
}
