// Whoever decides something for every primitive decides it for each.
// fails with: invoke|no matching function
#include "core/overloaded.h"
#include "graph/primitive.h"

namespace lockstep::graph {

int operands_of(const Primitive& primitive) {
  return visit_primitive(overloaded{
                             [](const OneOf<Data, Full, Iota, Random> auto&) { return 0; },
                             [](const OneOf<ViewOf, Cast, Scan, Sort, Fourier> auto&) { return 1; },
                             [](const Elementwise& elementwise) { return info_of(elementwise.op).arity; },
                             [](const Reduce& reduce) { return reduce.op == ReduceOp::dot ? 2 : 1; },
                             [](const OneOf<Contract, Gather> auto&) { return 2; },
                             [](const Scatter&) { return 3; },
                             [](const Attend& attend) { return attend.gradients ? 5 : 3; },
                             [](const Recur& recur) { return static_cast<int>(recur.operands() * recur.directions()); },
#ifndef LOCKSTEP_MUST_FAIL
                             [](const Update&) { return 2; },
#endif
                         },
                         primitive);
}

}  // namespace lockstep::graph
