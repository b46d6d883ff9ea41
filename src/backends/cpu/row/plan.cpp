#include "backends/cpu/row/plan.h"

#include <algorithm>

#include "backends/cpu/row/planner.h"

namespace lockstep {
inline namespace v0 {

ReduceTable::Kind RowReduction::kind() const {
  return op == ReduceOp::prod ? ReduceTable::prod : op == ReduceOp::dot ? ReduceTable::dot : ReduceTable::sum;
}

ReduceTable::Order RowReduction::order() const {
  return op == ReduceOp::min || op == ReduceOp::argmin ? ReduceTable::min : ReduceTable::max;
}

RowPlan make_plan(const Program& program, const PlanOptions& options) {
  return Planner(program, options).plan();
}

}  // namespace v0
}  // namespace lockstep
