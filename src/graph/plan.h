// The kernels of a window, in order and compiled: what a flush runs, and runs again as long as windows have the same
// key.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "backends/backend.h"
#include "graph/describe.h"
#include "graph/step.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// Kernels made ready for a device, and when each intermediate value is no longer needed.
struct Plan {
  struct Prepared {
    Step step;
    std::unique_ptr<Executable> executable;
    std::vector<std::size_t> made;   ///< bytes of what step.writes
    std::vector<int> released;       ///< entries that no later step reads, given ones among them
    bool may_replace = false;        ///< no later step reads what step.replaces
    std::size_t bytes = 0;           ///< that the kernel moves
    std::size_t bytes_in_place = 0;  ///< where it replaces

    /// Unless somebody looks at kernels, this runs instead, with an earlier step that does not (StepPair).
    struct Together {
      Step step;
      std::unique_ptr<Executable> executable;
      std::size_t bytes = 0;
    };
    std::unique_ptr<Together> together = {};
    bool is_in_later = false;  ///< that earlier one
  };
  std::vector<Prepared> steps;
  std::size_t checks = 0;   ///< fault words of all steps
  std::size_t largest = 0;  ///< bytes of the largest value that is made
};

std::shared_ptr<const Plan> make_plan(Backend& backend, const Window& window);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
