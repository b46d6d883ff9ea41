// The graph's side of CheckFinite.
#pragma once

#include "graph/node.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// Under CheckFinite computes the node, and throws ValueError if it is where a NaN or an infinity comes from.
void check_finite(const NodeRef& node);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
