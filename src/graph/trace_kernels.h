// What a Trace notes of kernels: their ops, who called them, what they read and wrote.
#pragma once

#include <cstddef>
#include <memory>

#include "graph/describe.h"
#include "graph/kernel_watch.h"
#include "graph/plan.h"
#include "graph/trace.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// Names the kernels of one run of a plan.
class TraceKernels {
 public:
  TraceKernels(std::shared_ptr<TraceLog> log, const Window& window, const Plan& plan);
  /// A kernel that has just been run and waited for.
  void add(const Plan::Prepared& prepared, std::size_t bytes, TraceClock::time_point start) const;

 private:
  std::shared_ptr<TraceLog> log_;
  const Window& window_;
  KernelNames names_;
};

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
