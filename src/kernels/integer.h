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

// clang-format on
