// Runs of a plan that its caller keeps, beside those of windows (window.cpp).
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/buffer.h"
#include "graph/describe.h"
#include "graph/plan.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

struct RunOfPlan {
  std::vector<BufferRef> buffers;  ///< of the values that are wanted, others null
  /// Of each value that is wanted the checks that it depends on; empty where there are none.
  std::vector<std::shared_ptr<const IndexChecks>> checks;
};
/// Runs the plan on the buffers of its window. On the host it looks whether all indices were good: nothing if one was
/// not. Elsewhere whoever reads the values does; `index_of`: what the errors look at instead of an index of the window.
std::optional<RunOfPlan> run_plan(Device device, const Window& window, const Plan& plan,
                                  const std::function<NodeRef(const NodeRef&)>& index_of);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
