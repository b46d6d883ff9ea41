// What the tables of elementwise loops share: the rows of ops.def as types, and the loops around them. No guard: included
// once per instruction set, inside its anonymous namespace.

#include "kernels/texts.h"

constexpr unsigned F32 = kTypeF32, F64 = kTypeF64, INT = kTypeInt, BOOL = kTypeBool;
constexpr OpKind ARITHMETIC = OpKind::arithmetic, COMPARISON = OpKind::comparison, MOVE = OpKind::move;
#define NONE T(0)

#define ROW(name, arity_, kind_, types_, cost, domain, call, torch, float_value, integer_value, ...) \
  struct name##_op {                                                                          \
    static constexpr Op op = Op::name;                                                        \
    static constexpr int arity = arity_;                                                      \
    static constexpr OpKind kind = kind_;                                                     \
    static constexpr unsigned types = types_;                                                 \
    template <typename T>                                                                     \
    static HWY_INLINE auto value([[maybe_unused]] T a, [[maybe_unused]] T b, [[maybe_unused]] T c) { \
      if constexpr (std::is_floating_point_v<T>) {                                            \
        return float_value;                                                                   \
      } else {                                                                                \
        return integer_value;                                                                 \
      }                                                                                       \
    }                                                                                         \
  };
#include "kernels/ops.def"
#undef ROW
#undef NONE

/// The value of an op made canonical. Lemma: tanh, sigmoid and erf give no NaN but the one, and erf nothing that is too
/// small, whatever they read: all f32 were tried on 2026-11-26, and tests/backends/cpu/canonical_test.cpp tries many.
template <class F, typename T> HWY_INLINE T made_canonical(T value) {
  if constexpr (std::is_same_v<T, float> && F::op == Op::erf) {
    return value;
  } else if constexpr (std::is_same_v<T, float> && (F::op == Op::tanh || F::op == Op::sigmoid)) {
    const UINT bits = BITS(value);
    return FROM_BITS(bits & SELECT(int(bits & 0x7fffffffu) > 0x00800000, 0xffffffffu, 0x80000000u));
  } else {
    return canonical(value);
  }
}

template <class F, typename T>
HWY_INLINE auto apply(T a, T b, T c)
  requires requires { F::kind; }
{
  if constexpr (F::kind == OpKind::comparison) {
    return static_cast<int>(F::value(a, b, c));
  } else if constexpr (F::kind == OpKind::arithmetic) {
    return made_canonical<F>(static_cast<T>(F::value(a, b, c)));
  } else {
    return F::value(a, b, c);
  }
}

template <class F, typename T>
HWY_INLINE auto apply(T a, T b, T c)
  requires requires { F::apply(a, b, c); }
{
  return F::apply(a, b, c);
}

/// Bit i of `scalars`: operand i is one value.
template <class F, typename T, int scalars>
void loop(void* out, const void* a, const void* b, const void* c, std::size_t n) {
  using Result = decltype(apply<F>(T(), T(), T()));
  auto* result = static_cast<Result*>(out);
  const auto* x = static_cast<const T*>(a);
  const auto* y = static_cast<const T*>(b);
  const auto* z = static_cast<const T*>(c);
  [[maybe_unused]] const T x0 = (scalars & 1) != 0 ? *x : T(0);
  [[maybe_unused]] const T y0 = (scalars & 2) != 0 ? *y : T(0);
  [[maybe_unused]] const T z0 = (scalars & 4) != 0 ? *z : T(0);
  LOCKSTEP_INDEPENDENT
  for (std::size_t i = 0; i < n; ++i) {
    const T xi = (scalars & 1) != 0 ? x0 : x[i];
    const T yi = F::arity < 2 ? T(0) : (scalars & 2) != 0 ? y0 : y[i];
    const T zi = F::arity < 3 ? T(0) : (scalars & 4) != 0 ? z0 : z[i];
    result[i] = apply<F>(xi, yi, zi);
  }
}

/// The same for operand 0 or 1 one value, through an array of it: for functions so long that one loop is enough.
template <class F, typename T, int scalars>
void loop_of_copies(void* out, const void* a, const void* b, const void*, std::size_t n) {
  using Result = decltype(apply<F>(T(), T(), T()));
  constexpr std::size_t block = 256;
  T copies[block];
  std::fill_n(copies, n < block ? n : block, *static_cast<const T*>(scalars == 1 ? a : b));
  for (std::size_t i = 0; i < n; i += block) {
    const T* const x = scalars == 1 ? copies : static_cast<const T*>(a) + i;
    const T* const y = scalars == 2 ? copies : static_cast<const T*>(b) + i;
    loop<F, T, 0>(static_cast<Result*>(out) + i, x, y, nullptr, n - i < block ? n - i : block);
  }
}

constexpr bool is_long(Op op) {
  switch (op) {
    case Op::floor_divide:
    case Op::fmod:
    case Op::remainder:
    case Op::pow:
    case Op::atan2:
    case Op::hypot:
    case Op::logaddexp:
    case Op::xlogy:
    case Op::nextafter: return true;
    default: return false;
  }
}

template <class F, typename T>
void fill_type(ElementwiseTable& table, Op op, ComputeType type) {
  auto& variants = table.op[index_of(op)][index_of(type)];
  variants[0] = loop<F, T, 0>;
  if constexpr (is_long(F::op)) {
    variants[1] = loop_of_copies<F, T, 1>;
    variants[2] = loop_of_copies<F, T, 2>;
  } else if constexpr (F::arity >= 2) {
    variants[1] = loop<F, T, 1>;
    variants[2] = loop<F, T, 2>;
  }
  if constexpr (F::arity == 3) {
    variants[3] = loop<F, T, 3>;
    variants[4] = loop<F, T, 4>;
    variants[5] = loop<F, T, 5>;
    variants[6] = loop<F, T, 6>;
  }
}

template <class F>
void fill_op(ElementwiseTable& table) {
  constexpr Op op = F::op;
  constexpr bool words = F::kind == OpKind::move;
  if constexpr (!words && (F::types & F32) != 0) fill_type<F, float>(table, op, ComputeType::f32);
  if constexpr (!words && (F::types & F64) != 0) fill_type<F, double>(table, op, ComputeType::f64);
  if constexpr (words || (F::types & (INT | BOOL)) != 0) fill_type<F, std::int32_t>(table, op, ComputeType::i32);
  if constexpr (words || (F::types & INT) != 0) fill_type<F, std::int64_t>(table, op, ComputeType::i64);
}
