// The loops of the elementwise ops, generated from ops.def: one per op, compute type and choice of scalar operands.
// The compiler vectorises them for each instruction set.
#include "backends/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/row/elementwise_table.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <type_traits>

#include "backends/cpu/row/tables.h"
#include "kernels/prelude.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace HWY_NAMESPACE {
namespace {

#include "kernels/texts.h"

constexpr unsigned F32 = kTypeF32, F64 = kTypeF64, INT = kTypeInt, BOOL = kTypeBool;
constexpr OpKind ARITHMETIC = OpKind::arithmetic, COMPARISON = OpKind::comparison, MOVE = OpKind::move;
#define NONE T(0)

#define ROW(name, arity_, kind_, types_, float_value, integer_value, ...)                     \
  struct name##_op {                                                                          \
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

/// canonical for results whose NaN is the one NaN already.
HWY_INLINE float without_small(float x) {
  const std::uint32_t bits = BITS(x);
  const auto small = static_cast<std::uint32_t>(static_cast<std::int32_t>((bits & 0x7fffffffu) - 0x00800001u) >> 31);
  return FROM_BITS(bits & ~(small & 0x7fffffffu));
}

// Functions of a sum or difference that give canonical results the same bits whether or not that was made canonical
// first: any NaN becomes the one NaN, and what is no larger than the smallest normal gives 1 (exp) or is halved (gelu).
struct exp_of_sub {
  static constexpr int arity = 2;
  static HWY_INLINE float apply(float a, float b, float) { return without_small(ls_exp(a - b)); }
};
struct gelu_of_add {
  static constexpr int arity = 2;
  static HWY_INLINE float apply(float a, float b, float) { return without_small(ls_gelu(a + b)); }
};

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

template <class F, typename T>
void fill_type(ElementwiseTable& table, Op op, ComputeType type) {
  auto& variants = table.op[index_of(op)][index_of(type)];
  variants[0] = loop<F, T, 0>;
  if constexpr (F::arity >= 2) {
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
void fill_op(ElementwiseTable& table, Op op) {
  constexpr bool words = F::kind == OpKind::move;
  if constexpr (!words && (F::types & F32) != 0) fill_type<F, float>(table, op, ComputeType::f32);
  if constexpr (!words && (F::types & F64) != 0) fill_type<F, double>(table, op, ComputeType::f64);
  if constexpr (words || (F::types & (INT | BOOL)) != 0) fill_type<F, std::int32_t>(table, op, ComputeType::i32);
  if constexpr (words || (F::types & INT) != 0) fill_type<F, std::int64_t>(table, op, ComputeType::i64);
}

ElementwiseTable make_table() {
  ElementwiseTable table;
#define ROW(name, ...) fill_op<name##_op>(table, Op::name);
#include "kernels/ops.def"
#undef ROW
  table.exp_of_sub = {loop<exp_of_sub, float, 0>, loop<exp_of_sub, float, 1>, loop<exp_of_sub, float, 2>};
  table.gelu_of_add = {loop<gelu_of_add, float, 0>, loop<gelu_of_add, float, 1>, loop<gelu_of_add, float, 2>};
  return table;
}

}  // namespace

const ElementwiseTable& elementwise() {
  static const ElementwiseTable table = make_table();
  return table;
}

}  // namespace HWY_NAMESPACE
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep {
inline namespace v0 {
HWY_EXPORT(elementwise);
LOCKSTEP_TABLE_OF_ISA(ElementwiseTable, elementwise_table, elementwise)
}  // namespace v0
}  // namespace lockstep
#endif
