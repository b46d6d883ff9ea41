// The value columns of ops.def as C++ functions: row_<name>(a, b, c) for every compute type, unused operands ignored.
// Results are not yet canonical, comparisons return int. A row that does not exist for a type returns 0 there; info_of
// tells. No guard: included like the texts, after them (see prelude.h).

#define NONE T(0)
#define ROW_RESULT_ARITHMETIC T
#define ROW_RESULT_COMPARISON int
#define ROW_RESULT_MOVE T
#define F32 1u
#define F64 2u
#define INT 12u
#define BOOL 12u
#define ROW(name, arity, kind, types, cost, domain, call, torch, float_value, integer_value, ...)     \
  template <typename T>                                                                               \
  FUNCTION auto row_##name([[maybe_unused]] T a, [[maybe_unused]] T b, [[maybe_unused]] T c) {        \
    constexpr unsigned type = std::is_floating_point_v<T> ? (sizeof(T) == 4 ? F32 : F64) : INT;       \
    if constexpr (((types) & type) == 0) {                                                            \
      return ROW_RESULT_##kind(0);                                                                    \
    } else if constexpr (std::is_floating_point_v<T>) {                                               \
      return ROW_RESULT_##kind(float_value);                                                          \
    } else {                                                                                          \
      return ROW_RESULT_##kind(integer_value);                                                        \
    }                                                                                                 \
  }
#include "kernels/ops.def"
#undef ROW
#undef BOOL
#undef INT
#undef F64
#undef F32
#undef ROW_RESULT_MOVE
#undef ROW_RESULT_COMPARISON
#undef ROW_RESULT_ARITHMETIC
#undef NONE
