// The value columns of ops.def as C++ functions: row_<name>(a, b, c) for every compute type, unused operands ignored.
// Results are not yet canonical, comparisons return int. A row that does not exist for a type returns 0 there; info_of
// tells. No guard: included like the texts, after them (see prelude.h).

#define NONE T(0)
#define ROW_RESULT_ARITHMETIC T
#define ROW_RESULT_COMPARISON int
#define ROW_RESULT_MOVE T
#define ROW_FUNCTION(name, kind, type, value)                                                           \
  FUNCTION auto row_##name([[maybe_unused]] type a, [[maybe_unused]] type b, [[maybe_unused]] type c) { \
    using T [[maybe_unused]] = type;                                                                    \
    return ROW_RESULT_##kind(value);                                                                    \
  }
#define ROW(name, arity, kind, types, float_value, integer_value, ...) \
  ROW_FUNCTION(name, kind, float, float_value)                         \
  ROW_FUNCTION(name, kind, double, float_value)                        \
  ROW_FUNCTION(name, kind, int, integer_value)                         \
  ROW_FUNCTION(name, kind, LONG, integer_value)
#include "kernels/ops.def"
#undef ROW
#undef ROW_FUNCTION
#undef ROW_RESULT_MOVE
#undef ROW_RESULT_COMPARISON
#undef ROW_RESULT_ARITHMETIC
#undef NONE
