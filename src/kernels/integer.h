// Integer arithmetic of docs/numerics.md section 9: everything wraps around. In the kernel subset, see prelude.h.
// Signed overflow is undefined in C++, so the words are added as unsigned ones.

// Tables of one-line functions:
// clang-format off

FUNCTION int wrap_add(int a, int b) { return int(UINT(a) + UINT(b)); }
FUNCTION LONG wrap_add(LONG a, LONG b) { return LONG(ULONG(a) + ULONG(b)); }
FUNCTION int wrap_sub(int a, int b) { return int(UINT(a) - UINT(b)); }
FUNCTION LONG wrap_sub(LONG a, LONG b) { return LONG(ULONG(a) - ULONG(b)); }
FUNCTION int wrap_mul(int a, int b) { return int(UINT(a) * UINT(b)); }
FUNCTION LONG wrap_mul(LONG a, LONG b) { return LONG(ULONG(a) * ULONG(b)); }
FUNCTION int wrap_neg(int a) { return int(0u - UINT(a)); }
FUNCTION LONG wrap_neg(LONG a) { return LONG(ULONG(0) - ULONG(a)); }

// Integers are canonical as they are, and their own ordering keys.
FUNCTION int canonical(int a) { return a; }
FUNCTION LONG canonical(LONG a) { return a; }
FUNCTION int max_key(int a) { return a; }
FUNCTION LONG max_key(LONG a) { return a; }
FUNCTION int min_key(int a) { return a; }
FUNCTION LONG min_key(LONG a) { return a; }

// Division: x / 0 = 0, x % 0 = 0, MIN / -1 = MIN. Dividing by -1 is a negation, so that no device sees the overflow.

#define INTEGER_DIVISION(WORD, UNSIGNED)                                                       \
  FUNCTION WORD wrap_fmod(WORD a, WORD b) {                                                    \
    WORD divisor = SELECT(b == WORD(0), WORD(1), SELECT(b == WORD(-1), WORD(1), b));           \
    return a - a / divisor * divisor; /* GLSL leaves % of negative numbers open */              \
  }                                                                                            \
  FUNCTION WORD wrap_remainder(WORD a, WORD b) {                                               \
    WORD rest = wrap_fmod(a, b);                                                               \
    return SELECT((rest != WORD(0)) && ((rest < WORD(0)) != (b < WORD(0))), rest + b, rest);   \
  }                                                                                            \
  FUNCTION WORD wrap_floor_divide(WORD a, WORD b) {                                            \
    WORD divisor = SELECT(b == WORD(0), WORD(1), SELECT(b == WORD(-1), WORD(1), b));           \
    WORD quotient = a / divisor;                                                               \
    WORD rest = a - quotient * divisor;                                                        \
    WORD one = SELECT((rest != WORD(0)) && ((rest < WORD(0)) != (b < WORD(0))), WORD(1), WORD(0)); \
    WORD result = SELECT(b == WORD(-1), wrap_neg(a), quotient - one);                          \
    return SELECT(b == WORD(0), WORD(0), result);                                              \
  }                                                                                            \
  /* By squaring. A negative power is 1 / a^-b without its fraction: 0 but for 1 and -1. */    \
  FUNCTION WORD wrap_pow(WORD a, WORD b) {                                                     \
    UNSIGNED power = UNSIGNED(1);                                                              \
    UNSIGNED square = UNSIGNED(a);                                                             \
    UNSIGNED left = SELECT(b < WORD(0), UNSIGNED(b) & UNSIGNED(1), UNSIGNED(b));               \
    while (left != UNSIGNED(0)) {                                                              \
      power = power * SELECT((left & UNSIGNED(1)) != UNSIGNED(0), square, UNSIGNED(1));        \
      square = square * square;                                                                \
      left = left >> 1;                                                                        \
    }                                                                                          \
    WORD inverse = SELECT((a == WORD(1)) || (a == WORD(-1)), WORD(power), WORD(0));            \
    return SELECT(b < WORD(0), inverse, WORD(power));                                          \
  }
INTEGER_DIVISION(int, UINT)
INTEGER_DIVISION(LONG, ULONG)
#undef INTEGER_DIVISION

// Shifts: a count that is negative or not below the width moves every bit out. Narrow types are cut to their width later.

FUNCTION int wrap_shift_left(int a, int b) { return SELECT(UINT(b) > 31u, 0, int(UINT(a) << (UINT(b) & 31u))); }
FUNCTION LONG wrap_shift_left(LONG a, LONG b) { return SELECT(ULONG(b) > ULONG(63), LONG(0), LONG(ULONG(a) << (ULONG(b) & ULONG(63)))); }
FUNCTION int wrap_shift_right(int a, int b) { return a >> SELECT(UINT(b) > 31u, 31u, UINT(b)); }
FUNCTION LONG wrap_shift_right(LONG a, LONG b) { return a >> SELECT(ULONG(b) > ULONG(63), ULONG(63), ULONG(b)); }

// clang-format on
