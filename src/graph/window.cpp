#include "graph/window.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "backends/backend.h"
#include "core/assert.h"
#include "graph/away.h"
#include "graph/capture_watch.h"
#include "graph/describe.h"
#include "graph/execute.h"
#include "graph/faults.h"
#include "graph/index_check.h"
#include "graph/live_tensors.h"
#include "graph/plan_cache.h"
#include "graph/run_plan.h"
#include "graph/schedule.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

constexpr std::size_t kCachedPlans = 256;

// The pending work of one device. `record` guards the list and is held for moments; `execute` is held through a
// flush, so that values are computed once and recording goes on meanwhile.
struct DeviceWindow {
  std::mutex record;
  std::vector<std::weak_ptr<Node>> pending;
  std::size_t bytes = 0;  ///< at least what a flush would have to store
  int depth = 0;
  std::atomic<std::size_t> limit_bytes{0};  ///< what the backend says; 0: not asked yet
  std::atomic<bool> may_be_full{false};     ///< what is pending reaches a limit; read without the lock

  std::mutex execute;
  Window window;  ///< of the flush that runs
  PlanCache plans{kCachedPlans};
  UnreadFaults faults;
  WorkCount work;
};

struct Windows {
  std::mutex mutex;
  std::map<Device, std::unique_ptr<DeviceWindow>> by_device;
  std::atomic<std::size_t> limit_nodes{WindowLimits{}.nodes};
  std::atomic<int> limit_depth{WindowLimits{}.depth};
  std::atomic<std::size_t> limit_bytes{WindowLimits{}.bytes};
};

// Never destroyed: tensors with static storage may outlive any static object here.
Windows& windows() {
  static Windows* const instance = new Windows;
  return *instance;
}

DeviceWindow& window_of(Device device) {
  // Every op asks, nearly always for the device of the op before.
  static thread_local Device last;
  static thread_local DeviceWindow* found = nullptr;
  if (found != nullptr && last == device) return *found;
  Windows& all = windows();
  const std::lock_guard lock(all.mutex);
  std::unique_ptr<DeviceWindow>& window = all.by_device[device];
  if (window == nullptr) window = std::make_unique<DeviceWindow>();
  last = device;
  found = window.get();
  return *window;
}

// Reads the fault words of all flushes that nobody has looked at, or of those that `read`, whose reading has begun,
// depends on.
void settle(DeviceWindow& state, Backend& backend, std::vector<NodeRef>& released, const Node* read = nullptr) {
  const auto compute = [&](const NodeRef& node) {
    const Window window = describe({&node, 1});
    const std::shared_ptr<const Plan> plan = state.plans.plan_for(backend, window);
    return execute(backend, window, *plan, state.faults.take_words(backend, plan->checks), state.work).back();
  };
  if (read != nullptr) {
    state.faults.settle_read(backend, compute, released, *read);
  } else {
    state.faults.settle(backend, compute, released);
  }
}

// `held`: those with a handle now. Who records an op holds its operands until the new node is in the window, so
// whatever a node that is not taken reads is held now or has its value: it is computed and stored, though its handle
// may go while the window is described. Else it would have to be computed again, from operands that are dropped when
// they were read.
std::vector<NodeRef> take_pending(DeviceWindow& state, std::vector<NodeRef>& held) {
  const std::lock_guard lock(state.record);
  std::vector<NodeRef> taken;
  taken.reserve(state.pending.size());
  for (const std::weak_ptr<Node>& weak : state.pending) {
    NodeRef node = weak.lock();
    if (node == nullptr) continue;
    const bool done = node->ready.load(std::memory_order_relaxed);
    if (!done && node->handles.load(std::memory_order_relaxed) > 0) held.push_back(node);
    taken.push_back(std::move(node));
  }
  state.pending.clear();
  state.bytes = 0;
  state.depth = 0;
  state.may_be_full.store(false, std::memory_order_relaxed);
  return taken;
}

// Values that another thread is recording, and that nobody held yet, are left for the next flush. Those that gradients
// compute again are found by what reads them; what they are made of is computed now.
void leave_unheld(DeviceWindow& state, const std::vector<NodeRef>& taken) {
  const std::lock_guard lock(state.record);
  const std::size_t before = state.pending.size();
  for (const NodeRef& node : taken) {
    const bool is_left =
        !node->ready.load(std::memory_order_relaxed) && node->failure == nullptr && node.use_count() > 1;
    if (!is_left) continue;
    if (node->again.load(std::memory_order_relaxed) && node->handles.load(std::memory_order_relaxed) == 0) {
      node->depth.store(1, std::memory_order_relaxed);
    } else {
      state.pending.push_back(node);
    }
  }
  if (state.pending.size() > before) state.may_be_full.store(true, std::memory_order_relaxed);
}

void put_back(DeviceWindow& state, const std::vector<NodeRef>& nodes) {
  const std::lock_guard lock(state.record);
  state.pending.insert(state.pending.begin(), nodes.begin(), nodes.end());
  state.may_be_full.store(true, std::memory_order_relaxed);
}

void flush_window(Device device, const NodeRef& wanted) {
  DeviceWindow& state = window_of(device);
  Backend& backend = backend_of(device);
  // Destroyed after the locks: releasing values may run the user's deleters.
  std::vector<NodeRef> pending;
  std::vector<NodeRef> dropped_inputs;
  const std::lock_guard executing(state.execute);
  if (state.faults.are_many()) settle(state, backend, dropped_inputs);
  Window& window = state.window;
  struct Clear {
    Window& window;
    ~Clear() { window.clear(); }
  } const at_the_end{window};
  std::vector<NodeRef> roots;
  pending = take_pending(state, roots);
  try {
    if (wanted != nullptr && !wanted->ready.load(std::memory_order_relaxed)) roots.push_back(wanted);
    if (roots.empty()) return leave_unheld(state, pending);
    const auto drop_inputs = [&](Node& node) {
      for (NodeRef& input : node.inputs) dropped_inputs.push_back(std::move(input));
      node.inputs.clear();
    };
    describe(roots, window);
    if (window.may_fail && spread_failures(window)) {
      std::erase_if(roots, [&](const NodeRef& root) {
        if (root->failure != nullptr) drop_inputs(*root);
        return root->failure != nullptr;
      });
      window.clear();  // its references would hide that a value can be replaced
      describe(roots, window);
    }
    if (!roots.empty()) {
      const std::shared_ptr<const Plan> plan = state.plans.plan_for(backend, window);
      const BufferRef faults = state.faults.take_words(backend, plan->checks);
      std::vector<BufferRef> buffers = execute(backend, window, *plan, faults, state.work);
      backend.start();
      std::vector<std::shared_ptr<const IndexChecks>> checks;
      if (plan->checks > 0 || window.may_fail) checks = state.faults.add(window, *plan, faults);
      dropped_inputs.reserve(window.all_operands.size());
      std::vector<NodeRef> stored;
      stored.reserve(window.nodes.size());
      for (std::size_t e = 0; e < buffers.size(); ++e) {
        if (!window.values[e].wanted) continue;
        Node& node = *window.nodes[e];
        drop_inputs(node);
        LOCKSTEP_ASSERT(buffers[e] != nullptr);
        if (!checks.empty()) node.checks = checks[e];
        node.buffer = std::move(buffers[e]);
        node.ready.store(true, std::memory_order_release);
        stored.push_back(window.nodes[e]);
      }
      remember_stored(stored);
    }
    leave_unheld(state, pending);
  } catch (...) {
    put_back(state, pending);  // nothing was published: the values can still be computed
    throw;
  }
  if (is_host(device) || state.faults.keep_much()) settle(state, backend, dropped_inputs);
  if (wanted != nullptr && wanted->failure != nullptr) std::rethrow_exception(wanted->failure);
}

// What a flush left for the next one was often read by nothing but values that died with the flush. It would be counted
// as pending: then windows of equal work end elsewhere each time, where other kernels are needed.
void forget_expired(Device device) {
  DeviceWindow& state = window_of(device);
  const std::lock_guard lock(state.record);
  std::erase_if(state.pending, [](const std::weak_ptr<Node>& node) { return node.expired(); });
}

thread_local int recordings_to_the_end = 0;

bool has_pending(DeviceWindow& state) {
  const std::lock_guard lock(state.record);
  return std::any_of(state.pending.begin(), state.pending.end(),
                     [](const std::weak_ptr<Node>& node) { return !node.expired(); });
}

// A read ends the window, also that of a value which a full window has computed already: so a loop that reads a value
// in each step ends its windows at the same places in each, and finds its plans again. Not a read of given data, which
// threads may do at any time beside the one that records.
void end_window(const Node& node) {
  if (form_of(node.op) == Form::given || !has_pending(window_of(node.device))) return;
  try {
    flush(node.device);
  } catch (const Error&) {
    // It is about other values. They are still pending, and say it when they are read.
  }
}

}  // namespace

void set_window_limits(WindowLimits limits) {
  windows().limit_nodes = limits.nodes;
  windows().limit_depth = limits.depth;
  windows().limit_bytes = limits.bytes;
}

WindowLimits window_limits() {
  return {windows().limit_nodes.load(), windows().limit_depth.load(), windows().limit_bytes.load()};
}

namespace {

WindowLimits limits_of(DeviceWindow& state, Device device) {
  WindowLimits limits = window_limits();
  if (limits.bytes == 0) {
    limits.bytes = state.limit_bytes.load(std::memory_order_relaxed);
    if (limits.bytes == 0) state.limit_bytes = limits.bytes = backend_of(device).window_bytes();
  }
  return limits;
}

// Under the window's lock.
bool is_over(const WindowLimits& limits, const DeviceWindow& state) {
  return state.pending.size() >= limits.nodes || state.depth >= limits.depth || state.bytes >= limits.bytes;
}

}  // namespace

void enter_window(const NodeRef& node) {
  DeviceWindow& state = window_of(node->device);
  const WindowLimits limits = limits_of(state, node->device);
  const std::lock_guard lock(state.record);
  state.pending.push_back(node);
  state.bytes += node->bytes();
  state.depth = std::max(state.depth, node->depth.load(std::memory_order_relaxed));
  if (is_over(limits, state)) state.may_be_full.store(true, std::memory_order_relaxed);
}

RecordsToTheEnd::RecordsToTheEnd() {
  ++recordings_to_the_end;
}
RecordsToTheEnd::~RecordsToTheEnd() {
  --recordings_to_the_end;
}

namespace {

// Most recorded values are gone or never stored: forgets those, and counts the bytes of those that are held.
void look_closer(DeviceWindow& state) {
  state.bytes = 0;
  std::erase_if(state.pending, [&](const std::weak_ptr<Node>& weak) {
    const NodeRef node = weak.lock();
    if (node == nullptr) return true;
    if (node->handles.load(std::memory_order_relaxed) > 0) state.bytes += node->bytes();
    return false;
  });
}

}  // namespace

void flush_if_full(Device device) {
  DeviceWindow& state = window_of(device);
  if (!state.may_be_full.load(std::memory_order_relaxed) || recordings_to_the_end > 0) return;
  const WindowLimits limits = limits_of(state, device);
  {
    const std::lock_guard lock(state.record);
    state.may_be_full.store(false, std::memory_order_relaxed);  // until another value is recorded
    if (!is_over(limits, state)) return;
    look_closer(state);
    const bool crowded = limits.nodes == 1 ? !state.pending.empty() : state.pending.size() > limits.nodes / 2;
    if (!crowded && state.depth < limits.depth && state.bytes < limits.bytes) return;
  }
  flush(device);
}

void flush_if_large(Device device, bool is_known) {
  constexpr std::size_t kLarge = 8;  // so many make a full one
  if (recordings_to_the_end > 0 || is_host(device)) return;
  DeviceWindow& state = window_of(device);
  if (!is_known) {
    const WindowLimits limits = limits_of(state, device);
    const std::lock_guard lock(state.record);
    if (state.bytes < limits.bytes / kLarge) return;
    look_closer(state);
    if (state.bytes < limits.bytes / kLarge) return;
  }
  flush(device);
}

void run_exclusively(Device device, const std::function<void()>& action) {
  const std::lock_guard executing(window_of(device).execute);
  action();
}

std::unique_lock<std::mutex> hold_pending(Device device) {
  return {window_of(device).execute, std::try_to_lock};
}

void flush(Device device, const NodeRef& wanted) {
  with_largest_tensors(device, [&] { flush_window(device, wanted); });
  forget_expired(device);
}

void start_computing(const NodeRef& node) {
  if (is_away(*node)) bring({node.get()});
  capture_reading(node);
  if (!node->ready.load(std::memory_order_acquire)) {
    flush(node->device, node);
  } else {
    end_window(*node);
  }
  if (const std::exception_ptr error = error_of(*node)) std::rethrow_exception(error);
}

namespace {

void settle_checks_of(const Node& node, bool is_read) {
  DeviceWindow& state = window_of(node.device);
  std::vector<NodeRef> released;
  const std::lock_guard executing(state.execute);
  settle(state, backend_of(node.device), released, is_read ? &node : nullptr);
  if (const std::exception_ptr error = error_of(node)) std::rethrow_exception(error);
}

}  // namespace

void compute(const NodeRef& node) {
  start_computing(node);
  if (is_unsettled(*node)) settle_checks_of(*node, false);
}

std::unique_ptr<HostCopy> begin_reading(const NodeRef& node, CopiesToHost& device,
                                        const std::function<std::unique_ptr<HostCopy>()>& copy) {
  DeviceWindow& state = window_of(node->device);
  const std::lock_guard executing(state.execute);
  if (is_unsettled(*node)) state.faults.begin_reading(device);
  return copy();
}

void finish_reading(const NodeRef& node) {
  if (is_unsettled(*node)) settle_checks_of(*node, true);
  if (const std::exception_ptr error = error_of(*node)) std::rethrow_exception(error);
}

std::optional<RunOfPlan> run_plan(Device device, const Window& window, const Plan& plan,
                                  const std::function<NodeRef(const NodeRef&)>& index_of) {
  DeviceWindow& state = window_of(device);
  Backend& backend = backend_of(device);
  RunOfPlan run;
  bool good = true;
  std::vector<NodeRef> released;  // after the lock
  with_largest_tensors(device, [&] {
    const std::lock_guard executing(state.execute);
    if (state.faults.are_many()) settle(state, backend, released);
    const BufferRef words = state.faults.take_words(backend, plan.checks);
    run.buffers = execute(backend, window, plan, words, state.work);
    backend.start();
    if (is_host(device)) {
      good = state.faults.give_back(backend, words, plan.checks);
    } else {
      run.checks = state.faults.add(window, plan, words, index_of);
    }
  });
  return good ? std::optional(std::move(run)) : std::nullopt;
}

std::vector<std::string> planned_kernels(std::span<const NodeRef> nodes) {
  std::map<Device, std::vector<NodeRef>> roots;
  for (const NodeRef& node : nodes) {
    const Reading reading = reading_of(node);
    if (!reading.base->ready.load(std::memory_order_acquire)) roots[reading.base->device].push_back(reading.base);
  }
  std::vector<std::string> lines;
  for (const auto& [device, bases] : roots) {
    const std::lock_guard executing(window_of(device).execute);
    for (const Step& step : schedule(entries_of(describe(bases)))) lines.push_back(to_string(step.kernel));
  }
  return lines;
}

WindowStatistics window_statistics(Device device) {
  DeviceWindow& state = window_of(device);
  const std::lock_guard lock(state.record);
  const auto pending = std::count_if(state.pending.begin(), state.pending.end(),
                                     [](const std::weak_ptr<Node>& node) { return !node.expired(); });
  return {static_cast<std::size_t>(pending), state.work.kernels.load(), state.work.bytes.load(), state.plans.made(),
          state.plans.reused()};
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
