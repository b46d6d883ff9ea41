// What the tables of elementwise loops share: the rows of ops.def as types, and the loops around them. No guard: included
// once per instruction set, inside its anonymous namespace.

#include "kernels/texts.h"

constexpr unsigned F32 = kTypeF32, F64 = kTypeF64, INT = kTypeInt, BOOL = kTypeBool;
constexpr OpKind ARITHMETIC = OpKind::arithmetic, COMPARISON = OpKind::comparison, MOVE = OpKind::move;
constexpr bool CHEAP = false, COSTLY = true;
#define NONE T(0)

#define ROW(name, arity_, kind_, types_, costly_, domain, call, torch, float_value, integer_value, ...) \
  struct name##_op {                                                                                    \
    static constexpr Op op = Op::name;                                                                  \
    static constexpr int arity = arity_;                                                                \
    static constexpr OpKind kind = kind_;                                                               \
    static constexpr unsigned types = types_;                                                           \
    static constexpr bool costly = costly_;                                                             \
    template <typename T>                                                                               \
    static HWY_INLINE auto value([[maybe_unused]] T a, [[maybe_unused]] T b, [[maybe_unused]] T c) {    \
      if constexpr (std::is_floating_point_v<T>) {                                                      \
        return float_value;                                                                             \
      } else {                                                                                          \
        return integer_value;                                                                           \
      }                                                                                                 \
    }                                                                                                   \
  };
#include "kernels/ops.def"
#undef ROW
#undef NONE

template <class F, typename T>
HWY_INLINE auto apply(T a, T b, T c)
  requires requires { F::kind; }
{
  if constexpr (F::kind == OpKind::comparison) {
    return static_cast<int>(F::value(a, b, c));
  } else if constexpr (F::kind == OpKind::arithmetic) {
    return canonical(static_cast<T>(F::value(a, b, c)));
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
HWY_NOINLINE void loop(void* out, const void* a, const void* b, const void* c, std::size_t n) {
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

/// a and b in each other's place.
template <ElementwiseFn function> void swapped(void* out, const void* a, const void* b, const void* c, std::size_t n) {
  function(out, b, a, c, n);
}

constexpr bool is_commutative(Op op) {
  return op == Op::add || op == Op::mul || op == Op::eq || op == Op::ne || op == Op::bitwise_and ||
         op == Op::bitwise_or || op == Op::bitwise_xor || op == Op::merge;
}

/// Elements of a step: a vector or two. Integers are divided one by one.
template <typename T> constexpr std::size_t kStep = std::is_floating_point_v<T> ? 64 / sizeof(T) : 1;
template <typename T> using Steps = void (*)(T* out, const T* x, const T* y, std::size_t n);

/// For functions so long that one loop is enough: n is a multiple of kStep, so that the compiler needs none for a rest.
template <class F, typename T> HWY_NOINLINE void whole_steps(T* out, const T* x, const T* y, std::size_t n) {
  for (std::size_t i = 0; i < n; i += kStep<T>) {
    LOCKSTEP_INDEPENDENT
    for (std::size_t j = i; j < i + kStep<T>; ++j) out[j] = apply<F>(x[j], F::arity < 2 ? T(0) : y[j], T(0));
  }
}

/// Operands that are one value become an array of it, the rest of the elements a step of its own.
template <typename T> void run_steps(Steps<T> steps, int scalars, T* out, const T* a, const T* b, std::size_t n) {
  T copies[256];
  const std::size_t block = scalars == 0 || n < std::size(copies) ? n : std::size(copies);
  if (scalars != 0) std::fill_n(copies, block, scalars == 1 ? *a : *b);
  for (std::size_t i = 0; i < n; i += block) {
    const std::size_t count = n - i < block ? n - i : block, rest = count % kStep<T>, whole = count - rest;
    const T* const x = scalars == 1 ? copies : a + i;
    const T* const y = scalars == 2 ? copies : b + i;
    steps(out + i, x, y, whole);
    if (rest == 0) continue;
    T last_x[kStep<T>] = {}, last_y[kStep<T>] = {};
    std::copy_n(x + whole, rest, last_x);
    std::copy_n(y + whole, rest, last_y);
    steps(last_x, last_x, last_y, kStep<T>);
    std::copy_n(last_x, rest, out + i + whole);
  }
}

template <class F, typename T, int scalars>
void loop_of_steps(void* out, const void* a, const void* b, const void*, std::size_t n) {
  run_steps<T>(whole_steps<F, T>, scalars, static_cast<T*>(out), static_cast<const T*>(a),
               static_cast<const T*>(F::arity < 2 ? a : b), n);
}

/// What is more than some instructions; but rsqrt is often wanted of one value for each row.
constexpr bool is_long(Op op, bool costly) {
  return costly && op != Op::sqrt && op != Op::rsqrt && op != Op::reciprocal && op != Op::div;
}

using Variants = std::array<ElementwiseFn, kScalarVariants>;

/// Of the op that is F with its operands swapped.
template <class F, typename T> Variants swapped_variants() {
  return {swapped<loop<F, T, 0>>, swapped<loop<F, T, 2>>, swapped<loop<F, T, 1>>};
}

template <class F, typename T> Variants variants_of() {
  if constexpr (F::op == Op::lt) {
    return swapped_variants<gt_op, T>();
  } else if constexpr (F::op == Op::le) {
    return swapped_variants<ge_op, T>();
  } else if constexpr (is_long(F::op, F::costly)) {
    if constexpr (F::arity == 1) {
      return {loop_of_steps<F, T, 0>};
    } else {
      return {loop_of_steps<F, T, 0>, loop_of_steps<F, T, 1>, loop_of_steps<F, T, 2>};
    }
  } else if constexpr (F::arity == 1) {
    return {loop<F, T, 0>};
  } else if constexpr (is_commutative(F::op)) {
    return {loop<F, T, 0>, swapped<loop<F, T, 2>>, loop<F, T, 2>};
  } else if constexpr (F::arity == 2) {
    return {loop<F, T, 0>, loop<F, T, 1>, loop<F, T, 2>};
  } else {
    return {loop<F, T, 0>, loop<F, T, 1>, loop<F, T, 2>, loop<F, T, 3>, loop<F, T, 4>, loop<F, T, 5>, loop<F, T, 6>};
  }
}

template <class F, typename T> void fill_type(ElementwiseTable& table, Op op, ComputeType type) {
  table.op[index_of(op)][index_of(type)] = variants_of<F, T>();
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
