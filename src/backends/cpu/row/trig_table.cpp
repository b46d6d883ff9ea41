// The loops of the elementwise ops, generated from ops.def: one per op, compute type and choice of scalar operands.
// The compiler vectorises them for each instruction set. Here: the unary ones from sin on; the file is split to compile
// in parallel.
#include "backends/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/row/trig_table.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "backends/cpu/row/tables.h"
#include "kernels/prelude.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace HWY_NAMESPACE {
namespace {

#include "backends/cpu/row/elementwise_loops.h"

ElementwiseTable make_table() {
  ElementwiseTable table;
#define ROW(name, arity, ...) \
  if constexpr (arity == 1 && Op::name >= Op::sin) fill_op<name##_op>(table);
#include "kernels/ops.def"
#undef ROW
  return table;
}

}  // namespace

const ElementwiseTable& trig() {
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
HWY_EXPORT(trig);
LOCKSTEP_TABLE_OF_ISA(ElementwiseTable, trig_table, trig)
}  // namespace v0
}  // namespace lockstep
#endif
