// Runs a plan on the buffers of a window: allocates results, replaces and drops values that nobody needs any more.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "graph/describe.h"
#include "graph/plan.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// What was run on a device so far; read while others run.
struct WorkCount {
  std::atomic<std::uint64_t> kernels{0};
  std::atomic<std::uint64_t> bytes{0};  ///< that they moved
};

/// Runs the plan of `window` and returns the buffers of its values, null for those that are not wanted. `faults`: words
/// for the plan's checks, in their order, all zero; null where it has none. Nothing is published when a kernel throws.
std::vector<BufferRef> execute(Backend& backend, const Window& window, const Plan& plan, const BufferRef& faults,
                               WorkCount& work);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
