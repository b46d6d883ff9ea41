// Pending work. One window per device collects the nodes that were recorded and not computed; a flush computes all
// that a user still holds. Users never see it: a flush happens at a read, or by itself when the window grows.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backends/side_work.h"
#include "graph/node.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// When a window flushes itself. The defaults are those of docs/design.md; tests set others.
struct WindowLimits {
  std::size_t nodes = 1024;
  int depth = 256;
  std::size_t bytes = 0;  ///< of values to be stored; 0: what the backend says
};
void set_window_limits(WindowLimits limits);
WindowLimits window_limits();

/// Records `node` as pending.
void enter_window(const NodeRef& node);
/// Flushes `device` if its window is over a limit. Called when a new node is safely held.
void flush_if_full(Device device);
/// On a GPU: flushes a window of much work already, so that the device computes it while the host records what comes
/// next, which is as much again. `is_known`: by what was recorded last.
void flush_if_large(Device device, bool is_known = false);
/// While one lives, nothing this thread records makes a window flush itself: between what names intermediate values and
/// what replaces the operands, a flush would store the former and could not drop the latter.
class RecordsToTheEnd {
 public:
  RecordsToTheEnd();
  ~RecordsToTheEnd();
  RecordsToTheEnd(const RecordsToTheEnd&) = delete;
  RecordsToTheEnd& operator=(const RecordsToTheEnd&) = delete;
};
/// Computes every held pending node of the device, and `wanted` (if given) even if it is a source.
void flush(Device device, const NodeRef& wanted = nullptr);
/// Runs `action` while no flush of this device does.
void run_exclusively(Device device, const std::function<void()>& action);
/// Owned while no flush of this device runs, which would let go of what pending nodes read; not owned where one does.
std::unique_lock<std::mutex> hold_pending(Device device);
/// Computes `node`, which is no view. Throws what went wrong with it, bad indices of what it depends on among that.
void compute(const NodeRef& node);
/// The same without waiting for the device: what is told of bad indices is told by a later reading.
void start_computing(const NodeRef& node);
/// What `copy` begins beside a reading of `node`, whose computing was started; and the end of that reading: throws what
/// went wrong, as `compute` does, without waiting for what came after its beginning.
std::unique_ptr<HostCopy> begin_reading(const NodeRef& node, CopiesToHost& device,
                                        const std::function<std::unique_ptr<HostCopy>()>& copy);
void finish_reading(const NodeRef& node);
/// The kernels that reading `nodes` would run now, one line each, device by device. Computes nothing.
std::vector<std::string> planned_kernels(std::span<const NodeRef> nodes);

/// Figures for tests and `memory` reports.
struct WindowStatistics {
  std::size_t pending = 0;    ///< nodes recorded and not computed
  std::uint64_t kernels = 0;  ///< run so far
  std::uint64_t bytes = 0;    ///< that they moved
  std::uint64_t plans_made = 0;
  std::uint64_t plans_reused = 0;
};
WindowStatistics window_statistics(Device device);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
