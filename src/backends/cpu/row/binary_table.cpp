// The loops of the elementwise ops, generated from ops.def: one per op, compute type and choice of scalar operands.
// The compiler vectorises them for each instruction set. Here: those of two and three operands.
#define HWY_TARGET_INCLUDE "backends/cpu/row/binary_table.cpp"
#include "backends/cpu/simd_table.h"

#include <algorithm>
#include <type_traits>

#include "backends/cpu/row/tables.h"
#include "kernels/prelude.h"

LOCKSTEP_TARGET_BEGIN()
namespace {

#include "backends/cpu/row/elementwise_loops.h"

// Functions of a sum or difference r that is not made canonical first (fuse.cpp chooses them). Lemma: f(r) and
// f(canonical(r)) are the same once they are canonical, f being exp or gelu. The two arguments differ only where r is NaN,
// and any NaN becomes the one, or where |r| is at most the smallest normal: there exp is 1, and gelu, which is r / 2, is
// zero with r's sign.
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR  // elsewhere they are function_table.cpp's
struct exp_of_sub {
  static constexpr int arity = 2;
  static HWY_INLINE float apply(float a, float b, float) {
    // Canonical, but that NaN is any quiet NaN.
    return FROM_BITS(std::min(BITS(ls_exp(a - b)), 0x7fc00000u));
  }
};
struct gelu_of_add {
  static constexpr int arity = 2;
  static HWY_INLINE float apply(float a, float b, float) { return canonical(ls_gelu(a + b)); }
};
#endif

ElementwiseTable make_table() {
  ElementwiseTable table;
#define ROW(name, arity, ...) \
  if constexpr (arity > 1) fill_op<name##_op>(table);
#include "kernels/ops.def"
#undef ROW
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  table.exp_of_sub = {loop<exp_of_sub, float, 0>, loop<exp_of_sub, float, 1>, loop<exp_of_sub, float, 2>};
  table.gelu_of_add = {loop<gelu_of_add, float, 0>, loop<gelu_of_add, float, 1>, loop<gelu_of_add, float, 2>};
#endif
  return table;
}

}  // namespace

LOCKSTEP_TARGET_END(ElementwiseTable, binary_table, make_table())
