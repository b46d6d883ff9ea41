// The loops of the elementwise ops, generated from ops.def: one per op, compute type and choice of scalar operands.
// The compiler vectorises them for each instruction set. Here: those of two and three operands, and the whole.
#include "backends/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/row/elementwise_table.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <type_traits>

#include "backends/cpu/row/tables.h"
#include "kernels/prelude.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace HWY_NAMESPACE {
namespace {

#include "backends/cpu/row/elementwise_loops.h"

// Functions of a sum or difference that give canonical results the same bits whether or not that was made canonical
// first: any NaN becomes one, and what is no larger than the smallest normal gives 1 (exp) or is halved (gelu).
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

ElementwiseTable make_table() {
  ElementwiseTable table;
#define ROW(name, arity, ...) \
  if constexpr (arity > 1) fill_op<name##_op>(table);
#include "kernels/ops.def"
#undef ROW
  table.exp_of_sub = {loop<exp_of_sub, float, 0>, loop<exp_of_sub, float, 1>, loop<exp_of_sub, float, 2>};
  table.gelu_of_add = {loop<gelu_of_add, float, 0>, loop<gelu_of_add, float, 1>, loop<gelu_of_add, float, 2>};
  return table;
}

}  // namespace

const ElementwiseTable& binary() {
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
HWY_EXPORT(binary);
LOCKSTEP_TABLE_OF_ISA(ElementwiseTable, binary_table, binary)
const ElementwiseTable& unary_table(Isa isa);
const ElementwiseTable& trig_table(Isa isa);

const ElementwiseTable& elementwise_table(Isa isa) {
  constexpr std::size_t count = static_cast<std::size_t>(Isa::avx512) + 1;
  static std::array<ElementwiseTable, count> tables;
  static std::array<std::once_flag, count> once;
  ElementwiseTable& table = tables[static_cast<std::size_t>(isa)];
  std::call_once(once[static_cast<std::size_t>(isa)], [&] {
    table = binary_table(isa);
    const ElementwiseTable &early = unary_table(isa), &late = trig_table(isa);
    for (int op = 0; op < kOpCount; ++op) {
      if (info_of(static_cast<Op>(op)).arity != 1) continue;
      const auto i = static_cast<std::size_t>(op);
      table.op[i] = static_cast<Op>(op) < Op::sin ? early.op[i] : late.op[i];
    }
  });
  return table;
}
}  // namespace v0
}  // namespace lockstep
#endif
