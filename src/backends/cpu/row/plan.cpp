#include "backends/cpu/row/plan.h"

namespace lockstep {
inline namespace v0 {

ReduceTable::Kind RowReduction::kind() const {
  return op == ReduceOp::prod ? ReduceTable::prod : op == ReduceOp::dot ? ReduceTable::dot : ReduceTable::sum;
}

ReduceTable::Order RowReduction::order() const {
  return op == ReduceOp::min || op == ReduceOp::argmin ? ReduceTable::min : ReduceTable::max;
}

}  // namespace v0
}  // namespace lockstep
