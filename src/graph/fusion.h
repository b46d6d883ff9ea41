// Which values are computed by one kernel. Groups of entries that share an iteration space; see schedule.h for the
// rules in one paragraph.
#pragma once

#include <vector>

#include "graph/entry.h"
#include "graph/groups.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// Groups in an order that respects their dependencies.
Fusion fuse(const std::vector<Entry>& entries);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
