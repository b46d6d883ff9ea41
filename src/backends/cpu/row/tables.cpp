// The table of elementwise loops is compiled in parts, side by side; here they become one.
#include "backends/cpu/row/tables.h"

#include <iterator>
#include <mutex>

namespace lockstep {
inline namespace v0 {

const ElementwiseTable& unary_table(Isa isa);   // unary_table.cpp: before sin
const ElementwiseTable& trig_table(Isa isa);    // trig_table.cpp: from sin on
const ElementwiseTable& binary_table(Isa isa);  // binary_table.cpp: everything else
const FunctionTable& function_table(Isa isa);   // function_table.cpp

const ElementwiseTable& elementwise_table(Isa isa) {
  constexpr std::size_t count = std::size(kIsas);
  static std::array<ElementwiseTable, count> tables;
  static std::array<std::once_flag, count> once;
  ElementwiseTable& table = tables[static_cast<std::size_t>(isa)];
  std::call_once(once[static_cast<std::size_t>(isa)], [&] {
    table = binary_table(isa);
    const FunctionTable& functions = function_table(isa);
    const ElementwiseTable &early = unary_table(isa), &late = trig_table(isa);
    for (int op = 0; op < kOpCount; ++op) {
      if (info_of(static_cast<Op>(op)).arity != 1) continue;
      const auto i = static_cast<std::size_t>(op);
      table.op[i] = static_cast<Op>(op) < Op::sin ? early.op[i] : late.op[i];
      if (functions.op[i] != nullptr) table.op[i][index_of(ComputeType::f32)][0] = functions.op[i];
    }
    if (functions.exp_of_sub[0] != nullptr) table.exp_of_sub = functions.exp_of_sub;
    if (functions.gelu_of_add[0] != nullptr) table.gelu_of_add = functions.gelu_of_add;
  });
  return table;
}

}  // namespace v0
}  // namespace lockstep
