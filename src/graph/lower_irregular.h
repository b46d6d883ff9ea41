// The kernels of irregular primitives: each entry is one of its own, which reads stored values.
#pragma once

#include <vector>

#include "graph/entry.h"
#include "graph/step.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

Step lower_irregular(const std::vector<Entry>& entries, int entry);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
