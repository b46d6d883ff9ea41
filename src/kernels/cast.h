// Casts between dtypes: docs/numerics.md section 9. In the kernel subset, see prelude.h.
//
// cast_<dtype>(x) takes a value of any compute type (float, double, int, LONG) and returns what an element of that
// dtype holds, in the dtype's own compute type: rounded once from the exact source (to f32 and bf16: canonical), float
// to integer saturating with NaN -> 0, integers wrapping, bool by != 0.

// Tables of one-line functions:
// clang-format off

// --- rounded to odd, so that a later rounding to f16 or bf16 gives the same as one from the source. Only f64 needs f64:
// --- not every device has it.

/// An integer in f32, with 14 bits or more.
FUNCTION float odd_f32(LONG x) {
  ULONG sign = SIGN_MASK64(ULONG(x));
  ULONG magnitude = (ULONG(x) ^ sign) - sign;
  int shift = SELECT((magnitude >> 24) == ULONG(0), 0, 10);
  shift = SELECT((magnitude >> 34) == ULONG(0), shift, 20);
  shift = SELECT((magnitude >> 44) == ULONG(0), shift, 30);
  shift = SELECT((magnitude >> 54) == ULONG(0), shift, 40);
  ULONG kept = magnitude >> shift;
  UINT odd = UINT(kept) | SELECT((kept << shift) != magnitude, 1u, 0u);
  FLOAT value = float(int(odd)) * FROM_BITS(UINT(127 + shift) << 23);
  return SELECT(x < LONG(0), -value, value);
}

/// f64 in f32. Results below 2^-126 are not exact, but stay below.
FUNCTION float odd_f32(double x) {
  ULONG bits = BITS64(x);
  ULONG dropped = bits & ULONG(0x1fffffff);
  ULONG sticky = SELECT(dropped != ULONG(0), ULONG(0x20000000), ULONG(0));
  return float(FROM_BITS64((bits - dropped) | sticky));
}

// --- to floats

FUNCTION float cast_f32(float x) { return canonical_f32(x); }
FUNCTION float cast_f32(double x) { return canonical_f32(float(x)); }
FUNCTION float cast_f32(int x) { return float(x); }
FUNCTION float cast_f32(LONG x) { return float(x); }

FUNCTION double cast_f64(float x) { return canonical_f64(double(x)); }
FUNCTION double cast_f64(double x) { return canonical_f64(x); }
FUNCTION double cast_f64(int x) { return double(x); }
FUNCTION double cast_f64(LONG x) { return double(x); }

FUNCTION float cast_f16(float x) { return decode_f16(encode_f16(x)); }
FUNCTION float cast_f16(double x) { return cast_f16(odd_f32(x)); }
FUNCTION float cast_f16(int x) { return cast_f16(odd_f32(LONG(x))); }
FUNCTION float cast_f16(LONG x) { return cast_f16(odd_f32(x)); }

FUNCTION float cast_bf16(float x) { return decode_bf16(encode_bf16(x)); }
FUNCTION float cast_bf16(double x) { return cast_bf16(odd_f32(x)); }
FUNCTION float cast_bf16(int x) { return cast_bf16(odd_f32(LONG(x))); }
FUNCTION float cast_bf16(LONG x) { return cast_bf16(odd_f32(x)); }

// --- floats to integers: the range is cut before the conversion, which is undefined outside it

FUNCTION int saturate_i32(float x, float low, float high) {
  FLOAT inside = SELECT(x > low, x, low);  // NaN too
  inside = SELECT(inside < high, inside, high);
  return SELECT(x == x, int(inside), 0);
}
FUNCTION int saturate_i32(double x, double low, double high) {
  DOUBLE inside = SELECT(x > low, x, low);
  inside = SELECT(inside < high, inside, high);
  return SELECT(x == x, int(inside), 0);
}
FUNCTION LONG saturate_i64(float x, float low, float high) {
  FLOAT inside = SELECT(x > low, x, low);
  inside = SELECT(inside < high, inside, high);
  return SELECT(x == x, LONG(inside), LONG(0));
}
FUNCTION LONG saturate_i64(double x, double low, double high) {
  DOUBLE inside = SELECT(x > low, x, low);
  inside = SELECT(inside < high, inside, high);
  return SELECT(x == x, LONG(inside), LONG(0));
}

FUNCTION int cast_u8(float x) { return saturate_i32(x, 0.0f, 255.0f); }
FUNCTION int cast_u8(double x) { return saturate_i32(x, 0.0, 255.0); }
FUNCTION int cast_i8(float x) { return saturate_i32(x, -128.0f, 127.0f); }
FUNCTION int cast_i8(double x) { return saturate_i32(x, -128.0, 127.0); }
FUNCTION int cast_i16(float x) { return saturate_i32(x, -32768.0f, 32767.0f); }
FUNCTION int cast_i16(double x) { return saturate_i32(x, -32768.0, 32767.0); }
FUNCTION int cast_i32(double x) { return saturate_i32(x, -2147483648.0, 2147483647.0); }
FUNCTION int cast_i32(float x) {
  // 2^31 - 1 is no float; the largest below is 2^31 - 128. So below, with 2^32 - 1 and 2^63 - 1.
  int inside = saturate_i32(x, -2147483648.0f, 2147483520.0f);
  return SELECT(x >= 2147483648.0f, 0x7fffffff, inside);
}
FUNCTION LONG cast_u32(double x) { return saturate_i64(x, 0.0, 4294967295.0); }
FUNCTION LONG cast_u32(float x) {
  LONG inside = saturate_i64(x, 0.0f, 4294967040.0f);
  return SELECT(x >= 4294967296.0f, LONG(0xffffffffu), inside);
}
FUNCTION LONG cast_i64(double x) {
  // 2^63 - 1 is no double; the largest below is 2^63 - 1024.
  LONG inside = saturate_i64(x, -9223372036854775808.0, 9223372036854774784.0);
  return SELECT(x >= 9223372036854775808.0, LONG(ULONG(0x7fffffffffffffff)), inside);
}
FUNCTION LONG cast_i64(float x) {
  LONG inside = saturate_i64(x, -9223372036854775808.0f, 9223371487098961920.0f);
  return SELECT(x >= 9223372036854775808.0f, LONG(ULONG(0x7fffffffffffffff)), inside);
}

FUNCTION int cast_bool(float x) { return SELECT(operand_f32(x) != 0.0f, 1, 0); }
FUNCTION int cast_bool(double x) { return SELECT(x != 0.0, 1, 0); }
FUNCTION int cast_bool(int x) { return SELECT(x != 0, 1, 0); }
FUNCTION int cast_bool(LONG x) { return SELECT(x != LONG(0), 1, 0); }

// --- integers to integers

FUNCTION int cast_u8(int x) { return x & 0xff; }
FUNCTION int cast_u8(LONG x) { return int(UINT(ULONG(x))) & 0xff; }
FUNCTION int cast_i8(int x) { return int(UINT(x) << 24) >> 24; }
FUNCTION int cast_i8(LONG x) { return cast_i8(int(UINT(ULONG(x)))); }
FUNCTION int cast_i16(int x) { return int(UINT(x) << 16) >> 16; }
FUNCTION int cast_i16(LONG x) { return cast_i16(int(UINT(ULONG(x)))); }
FUNCTION int cast_i32(int x) { return x; }
FUNCTION int cast_i32(LONG x) { return int(UINT(ULONG(x))); }
FUNCTION LONG cast_u32(int x) { return LONG(UINT(x)); }
FUNCTION LONG cast_u32(LONG x) { return LONG(UINT(ULONG(x))); }
FUNCTION LONG cast_i64(int x) { return LONG(x); }
FUNCTION LONG cast_i64(LONG x) { return x; }

// clang-format on
