// The kernels of a window, in order and compiled: what a flush runs, and runs again as long as windows have the same
// key.
#pragma once

#include <cstddef>
#include <cstdint>
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

    /// Unless somebody looks at kernels, this runs instead, with another step that does not: an earlier one (StepPair)
    /// or later ones (Siblings).
    struct Together {
      Step step;  ///< but its kernel
      std::unique_ptr<Executable> executable;
      std::vector<std::size_t> made;
      std::size_t bytes = 0;
    };
    std::unique_ptr<Together> together = {};
    bool is_in_other = false;  ///< that other one
  };
  std::vector<Prepared> steps;

  /// What execute() looks at of a kernel. Steps are large and have lists of their own: to walk through those takes
  /// longer than to launch.
  struct Launch {
    const Executable* executable = nullptr;
    std::uint32_t step = 0;
    std::uint32_t slots = 0;       ///< of Launches::entries: entries behind the slots from here on,
    std::uint32_t made = 0;        ///< what is written from here on,
    std::uint32_t released = 0;    ///< and what is released from here on,
    std::uint32_t end = 0;         ///< up to here
    std::uint32_t parameters = 0;  ///< of Launches::parameters
    std::uint32_t parameters_end = 0;
    std::uint32_t checks = 0;  ///< fault words
    int replaces = -1;         ///< may be replaced by what is written
    std::size_t bytes = 0;
    std::size_t bytes_in_place = 0;
  };
  struct Launches {
    std::vector<Launch> kernels;
    std::vector<int> entries;
    std::vector<std::size_t> bytes;  ///< of each of `entries`, where that is made
    std::vector<ParameterSource> parameters;
  };
  Launches launches;
  Launches apart;  ///< the same without steps that run together; empty where there are none
  const Launches& launches_of(bool watched) const { return watched && !apart.kernels.empty() ? apart : launches; }

  std::vector<int> checked;  ///< the entry behind each fault word of all steps
  std::size_t checks = 0;    ///< how many there are
  std::size_t largest = 0;  ///< bytes of the largest value that is made
};

std::shared_ptr<const Plan> make_plan(Backend& backend, const Window& window);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
