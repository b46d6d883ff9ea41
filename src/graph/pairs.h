// Two products of one left operand, of which the second computes with the results of the first, as one kernel: a gate
// beside what it multiplies. Devices on which a launch costs as much as these say so (Backend::has_pair).
#pragma once

#include <cstddef>
#include <vector>

#include "graph/entry.h"
#include "graph/step.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

struct StepPair {
  std::size_t first, second;  ///< steps
  Step together;              ///< instead of both, where the second stands
};

/// The pairs among steps that schedule() has made of the entries; no step is in two. The first one's result is nobody
/// else's.
std::vector<StepPair> find_pairs(const std::vector<Entry>& entries, const std::vector<Step>& steps);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
