// The loops of the elementwise ops, generated from ops.def: one per op, compute type and choice of scalar operands.
// The compiler vectorises them for each instruction set. Here: the unary ones before sin; the file is split to compile
// in parallel.
#define HWY_TARGET_INCLUDE "backends/cpu/row/unary_table.cpp"
#include "backends/cpu/simd_table.h"

#include <algorithm>
#include <type_traits>

#include "backends/cpu/row/tables.h"
#include "kernels/prelude.h"

LOCKSTEP_TARGET_BEGIN()
namespace {

#include "backends/cpu/row/elementwise_loops.h"

ElementwiseTable make_table() {
  ElementwiseTable table;
#define ROW(name, arity, ...) \
  if constexpr (arity == 1 && Op::name < Op::sin) fill_op<name##_op>(table);
#include "kernels/ops.def"
#undef ROW
  return table;
}

}  // namespace

LOCKSTEP_TARGET_END(ElementwiseTable, unary_table, make_table())
