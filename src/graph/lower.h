// Turns one fused group into the kernel that computes it: entries become instructions, reads of other values become
// loads, values that others need become outputs.
#pragma once

#include "graph/entry.h"
#include "graph/groups.h"
#include "graph/step.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

Step lower(const std::vector<Entry>& entries, const Fusion& fusion, int group);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
