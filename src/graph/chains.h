// A kernel and the products that alone read its result as one executable, in which the first makes that result as the
// others read it, where a device can (Backend::runs_together): rows that are rounded for products in q8 numerics.
#pragma once

#include <vector>

#include "backends/backend.h"
#include "graph/pairs.h"
#include "graph/siblings.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// What becomes part of a chain, which is one of the siblings then, is no longer a pair or among other siblings.
void join_makers(const Backend& backend, const std::vector<Entry>& entries, const std::vector<Step>& steps,
                 std::vector<StepPair>& pairs, std::vector<Siblings>& siblings);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
