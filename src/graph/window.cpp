#include "graph/window.h"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>

#include <lockstep/work.h>

#include "backends/backend.h"
#include "core/assert.h"
#include "graph/describe.h"
#include "graph/index_check.h"
#include "graph/live_tensors.h"
#include "graph/numbers.h"
#include "graph/plan_cache.h"
#include "graph/schedule.h"
#include "kernels/traffic.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

constexpr std::size_t kCachedPlans = 256;
// Flushes whose fault words nobody has read, and what their checks keep in memory: past these, a flush waits.
constexpr std::size_t kMostUnread = 16;
constexpr std::size_t kMostUnreadBytes = std::size_t{64} << 20;

// The fault words of a flush on the device, and what each of them stands for.
struct Unread {
  BufferRef faults;
  IndexChecks checks;
  std::size_t bytes = 0;  ///< kept in memory for the checks
};

// The pending work of one device. `record` guards the list and is held for moments; `execute` is held through a
// flush, so that values are computed once and recording goes on meanwhile.
struct DeviceWindow {
  std::mutex record;
  std::vector<std::weak_ptr<Node>> pending;
  std::size_t bytes = 0;  ///< at least what a flush would have to store
  int depth = 0;
  std::atomic<std::size_t> limit_bytes{0};  ///< what the backend says; 0: not asked yet

  std::mutex execute;
  PlanCache plans{kCachedPlans};
  std::deque<Unread> unread;  ///< oldest first
  /// Fault words that were read, for later flushes. They are not given back: others would move into their memory, and
  /// steps that repeat would not find theirs again.
  std::vector<BufferRef> free_faults;
  std::size_t unread_bytes = 0;
  std::atomic<std::uint64_t> kernels{0};
  std::atomic<std::uint64_t> moved_bytes{0};
  std::atomic<std::uint64_t> plans_made{0};
  std::atomic<std::uint64_t> plans_reused{0};
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

Scalar parameter(const Window& window, const ParameterSource& source) {
  if (source.entry < 0) return source.constant;
  const Primitive& op = window.nodes[static_cast<std::size_t>(source.entry)]->op;
  if (const auto* elementwise = std::get_if<Elementwise>(&op)) {
    return elementwise->scalars[static_cast<std::size_t>(source.position)];
  }
  if (const auto* full = std::get_if<Full>(&op)) return full->value;
  if (const auto* random = std::get_if<Random>(&op)) return {source.position == 0 ? random->seed : random->draw};
  fail_invariant("parameters come from scalars, full and random", __FILE__, __LINE__);
}

// --- executing ------------------------------------------------------------------------------------------------

std::shared_ptr<const Plan> plan_for(DeviceWindow& state, Backend& backend, const Window& window) {
  PlanKey key = key_of(window);
  if (std::shared_ptr<const Plan> known = state.plans.find(key)) {
    state.plans_reused.fetch_add(1, std::memory_order_relaxed);
    return known;
  }
  auto plan = std::make_shared<Plan>();
  std::vector<int> last_use(window.nodes.size(), -1);
  std::vector<Step> steps = schedule(entries_of(window));
  std::vector<const Kernel*> kernels;
  for (const Step& step : steps) kernels.push_back(&step.kernel);
  std::vector<std::unique_ptr<Executable>> executables = backend.compile_all(kernels);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    Step& step = steps[s];
    std::vector<std::size_t> slot_bytes;
    for (const int entry : step.slots) {
      last_use[static_cast<std::size_t>(entry)] = static_cast<int>(s);
      slot_bytes.push_back(window.nodes[static_cast<std::size_t>(entry)]->bytes());
    }
    plan->checks += step.checks.size();
    const std::size_t bytes = bytes_moved(step.kernel, slot_bytes);
    const std::size_t in_place = bytes_moved(step.kernel, slot_bytes, true);
    plan->steps.push_back({std::move(step), std::move(executables[s]), {}, false, bytes, in_place});
  }
  for (std::size_t s = 0; s < plan->steps.size(); ++s) {
    const int replaced = plan->steps[s].step.replaces;
    plan->steps[s].may_replace = replaced >= 0 && !window.values[static_cast<std::size_t>(replaced)].wanted &&
                                 last_use[static_cast<std::size_t>(replaced)] == static_cast<int>(s);
  }
  for (std::size_t e = 0; e < last_use.size(); ++e) {
    if (last_use[e] >= 0 && !window.values[e].wanted) {
      plan->steps[static_cast<std::size_t>(last_use[e])].released.push_back(static_cast<int>(e));
    }
  }
  state.plans_made.fetch_add(1, std::memory_order_relaxed);
  state.plans.insert(std::move(key), plan);
  return plan;
}

// What kernels read: tensors of a file may start at any byte, but elements in kernels are aligned.
const BufferRef& readable_buffer(Node& node, Backend& backend) {
  const auto address = reinterpret_cast<std::uintptr_t>(node.buffer->data());
  if (!is_host(node.device)) return node.buffer;  // never borrowed
  if (address % size_of(node.dtype) == 0) return node.buffer;
  if (node.aligned == nullptr) {
    BufferRef copy = backend.allocate(node.bytes());
    backend.upload(*copy, node.buffer->data(), node.bytes());
    node.aligned = std::move(copy);
  }
  return node.aligned;
}

// Whether the memory of a given value may be written: it came from a kernel, and only its update still needs it.
bool is_replaceable(const NodeRef& node) {
  constexpr int kWindowAndUpdate = 2;
  return !std::holds_alternative<Data>(node->op) && node->handles.load(std::memory_order_relaxed) == 0 &&
         node.use_count() == kWindowAndUpdate && node->buffer.use_count() == 1;
}

// Which given values nobody but this window's own nodes refers to: they can go as soon as they were read. (Another
// thread may be recording a node that reads a value whose handles are gone already: only the counts tell.) Not memory of
// the user's, whose deleters must not run here, nor what indices are computed from, which is looked at after a fault.
std::vector<bool> find_droppable(const Window& window) {
  std::vector<bool> droppable(window.nodes.size(), false);
  bool any = false;
  for (std::size_t e = 0; e < window.nodes.size(); ++e) {
    const Node& node = *window.nodes[e];
    droppable[e] = window.values[e].given && !std::holds_alternative<Data>(node.op) &&
                   node.handles.load(std::memory_order_relaxed) == 0;
    any = any || droppable[e];
  }
  if (!any) return droppable;
  // References that the window's nodes hold: to values, a view being one for all that read through it, and to views.
  std::vector<long> uses(window.nodes.size(), 0);
  struct ViewUse {
    const NodeRef* view;
    std::size_t base;
    long uses;
  };
  std::vector<ViewUse> views;
  Numbers<Node> view_numbers;
  for (std::size_t e = 0; e < window.nodes.size(); ++e) {
    const std::span<const int> operands = window.operands(e);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] < 0 || !droppable[static_cast<std::size_t>(operands[i])]) continue;
      const auto base = static_cast<std::size_t>(operands[i]);
      const NodeRef& input = window.nodes[e]->inputs[i];
      if (!std::holds_alternative<ViewOf>(input->op)) {
        ++uses[base];
      } else if (view_numbers.add(input.get())) {
        views.push_back({&input, base, 1});
        ++uses[base];
      } else {
        ++views[static_cast<std::size_t>(view_numbers[input.get()])].uses;
      }
    }
  }
  for (const ViewUse& use : views) {
    if (use.view->use_count() != use.uses) droppable[use.base] = false;
  }
  std::vector<bool> kept(window.nodes.size(), false);
  for (std::size_t e = window.nodes.size(); e-- > 0;) {
    const Primitive& op = window.nodes[e]->op;
    const bool checked = std::holds_alternative<Gather>(op) || std::holds_alternative<Scatter>(op);
    const std::span<const int> operands = window.operands(e);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] >= 0 && (kept[e] || (checked && i == 1))) kept[static_cast<std::size_t>(operands[i])] = true;
    }
  }
  for (std::size_t e = 0; e < window.nodes.size(); ++e) {
    droppable[e] = droppable[e] && !kept[e] && window.nodes[e].use_count() == 1 + uses[e];
  }
  return droppable;
}

struct Outcome {
  std::vector<BufferRef> buffers;  ///< of wanted entries
  BufferRef faults;                ///< a word for each check of the plan's steps, in their order; null for none
};

BufferRef take_faults(DeviceWindow& state, Backend& backend, std::size_t count) {
  constexpr std::size_t kLeast = 64;
  const std::vector<std::uint32_t> zeros(count);
  BufferRef words;
  if (count <= kLeast && !state.free_faults.empty()) {
    words = std::move(state.free_faults.back());
    state.free_faults.pop_back();
  } else {
    words = backend.allocate(4 * std::max(count, kLeast));
  }
  backend.upload(*words, zeros.data(), 4 * count);
  return words;
}

// Runs the plan. Nothing is published when a kernel throws.
Outcome execute(DeviceWindow& state, Backend& backend, const Window& window, const Plan& plan) {
  Outcome outcome;
  std::vector<BufferRef>& buffers = outcome.buffers;
  buffers.resize(window.nodes.size());
  const std::vector<bool> droppable = find_droppable(window);
  // Given values that were overwritten or dropped: lost if a later kernel throws.
  struct Lost {
    std::vector<Node*> nodes;
    bool done = false;
    ~Lost() {
      for (Node* node : nodes) {
        if (done) break;
        node->ready.store(false, std::memory_order_relaxed);
        node->failure = std::make_exception_ptr(BackendError("the value was lost when a later kernel failed"));
      }
    }
  } lost;
  for (std::size_t e = 0; e < buffers.size(); ++e) {
    if (window.values[e].given) buffers[e] = readable_buffer(*window.nodes[e], backend);
  }
  std::vector<std::byte*> slots;
  std::vector<Scalar> parameters;
  std::span<std::uint32_t> faults;
  std::size_t next_fault = 0;
  if (plan.checks > 0) {
    outcome.faults = take_faults(state, backend, plan.checks);
    faults = {reinterpret_cast<std::uint32_t*>(outcome.faults->data()), plan.checks};
  }
  for (const Plan::Prepared& prepared : plan.steps) {
    bool replaced = false;
    if (prepared.may_replace) {
      const auto from = static_cast<std::size_t>(prepared.step.replaces);
      const auto to = static_cast<std::size_t>(prepared.step.writes[0]);
      if (!window.values[from].given) {
        buffers[to] = buffers[from];
        replaced = true;
      } else if (buffers[from] = nullptr; is_replaceable(window.nodes[from])) {
        Node& node = *window.nodes[from];
        buffers[from] = buffers[to] = std::move(node.buffer);
        lost.nodes.push_back(&node);
        replaced = true;
      } else {
        buffers[from] = readable_buffer(*window.nodes[from], backend);
      }
    }
    for (const int entry : prepared.step.writes) {
      if (replaced) break;
      buffers[static_cast<std::size_t>(entry)] = backend.allocate(window.nodes[static_cast<std::size_t>(entry)]->bytes());
    }
    slots.clear();
    for (const int entry : prepared.step.slots) slots.push_back(buffers[static_cast<std::size_t>(entry)]->data());
    parameters.clear();
    for (const ParameterSource& source : prepared.step.parameters) parameters.push_back(parameter(window, source));
    prepared.executable->run({slots, parameters, faults, next_fault});
    next_fault += prepared.step.checks.size();
    state.kernels.fetch_add(1, std::memory_order_relaxed);
    state.moved_bytes.fetch_add(replaced ? prepared.bytes_in_place : prepared.bytes, std::memory_order_relaxed);
    for (const int entry : prepared.released) {
      const auto e = static_cast<std::size_t>(entry);
      buffers[e].reset();
      if (!droppable[e] || window.nodes[e]->buffer == nullptr) continue;
      window.nodes[e]->buffer.reset();
      window.nodes[e]->aligned.reset();
      lost.nodes.push_back(window.nodes[e].get());
    }
  }
  lost.done = true;
  return outcome;
}

// --- bad indices ------------------------------------------------------------------------------------------------

// Reads the fault words of all flushes that nobody has looked at, and finds the errors of those that are set. Waits for
// the device. `released`: destroyed by the caller after the locks, like all values that are given up.
void settle(DeviceWindow& state, Backend& backend, std::vector<NodeRef>& released) {
  while (!state.unread.empty()) {
    const Unread& oldest = state.unread.front();
    std::vector<std::uint32_t> faults(oldest.checks.size());
    backend.download(faults.data(), *oldest.faults, 4 * faults.size());
    for (std::size_t i = 0; i < faults.size(); ++i) {
      IndexCheck& check = *oldest.checks[i];
      if (check.settled.load(std::memory_order_relaxed)) continue;
      if (faults[i] != 0) {
        const Reading reading = reading_of(check.index);
        BufferRef buffer = reading.base->buffer;
        if (buffer == nullptr) {
          const Window window = describe({&reading.base, 1});
          buffer = execute(state, backend, window, *plan_for(state, backend, window)).buffers.back();
        }
        std::vector<std::byte> bytes(reading.base->bytes());
        backend.download(bytes.data(), *buffer, bytes.size());
        check.error = index_error(check, reading, bytes);
      }
      check.settled.store(true, std::memory_order_release);
      released.push_back(std::move(check.index));
    }
    state.unread_bytes -= oldest.bytes;
    if (state.free_faults.size() <= kMostUnread) state.free_faults.push_back(oldest.faults);
    state.unread.pop_front();
  }
}

// The checks that the results of a run depend on: new ones, to be read later, and those of given values.
std::vector<std::shared_ptr<const IndexChecks>> checks_of(DeviceWindow& state, const Window& window, const Plan& plan,
                                                          const Outcome& outcome) {
  CheckedValues values(window.nodes.size());
  for (std::size_t e = 0; e < window.nodes.size(); ++e) {
    if (!window.values[e].given || !is_unsettled(*window.nodes[e])) continue;
    for (const std::shared_ptr<IndexCheck>& check : *window.nodes[e]->checks) {
      if (!check->settled.load(std::memory_order_relaxed)) values.add(e, check);
    }
  }
  if (outcome.faults != nullptr) {
    Unread unread{outcome.faults, {}, 0};
    for (const Plan::Prepared& prepared : plan.steps) {
      for (const int entry : prepared.step.checks) {
        const auto e = static_cast<std::size_t>(entry);
        unread.checks.push_back(check_of(*window.nodes[e]));
        unread.bytes += bytes_kept_by(*unread.checks.back());
        values.add(e, unread.checks.back());
      }
    }
    state.unread_bytes += unread.bytes;
    state.unread.push_back(std::move(unread));
  }
  if (values.empty()) return {};
  std::vector<std::shared_ptr<const IndexChecks>> lists;
  for (std::size_t e = 0; e < window.nodes.size(); ++e) {
    for (const int operand : window.operands(e)) {
      if (operand >= 0) values.inherit(e, static_cast<std::size_t>(operand));
    }
    lists.push_back(values.of(e));
  }
  return lists;
}

// Marks what depends on failed values as failed; returns whether there is any.
bool spread_failures(Window& window) {
  bool any = false;
  for (std::size_t e = 0; e < window.nodes.size(); ++e) {
    Node& node = *window.nodes[e];
    if (node.failure == nullptr) node.failure = error_of(node);
    for (const int operand : window.operands(e)) {
      if (operand < 0 || node.failure != nullptr) continue;
      node.failure = window.nodes[static_cast<std::size_t>(operand)]->failure;
    }
    any = any || node.failure != nullptr;
  }
  return any;
}

std::vector<NodeRef> take_pending(DeviceWindow& state) {
  const std::lock_guard lock(state.record);
  std::vector<NodeRef> taken;
  for (const std::weak_ptr<Node>& weak : state.pending) {
    if (NodeRef node = weak.lock()) taken.push_back(std::move(node));
  }
  state.pending.clear();
  state.bytes = 0;
  state.depth = 0;
  return taken;
}

void put_back(DeviceWindow& state, const std::vector<NodeRef>& nodes) {
  const std::lock_guard lock(state.record);
  state.pending.insert(state.pending.begin(), nodes.begin(), nodes.end());
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

void enter_window(const NodeRef& node) {
  DeviceWindow& state = window_of(node->device);
  const std::lock_guard lock(state.record);
  state.pending.push_back(node);
  state.bytes += node->bytes();
  state.depth = std::max(state.depth, node->depth);
}

void flush_if_full(Device device) {
  WindowLimits limits = window_limits();
  DeviceWindow& state = window_of(device);
  if (limits.bytes == 0) {
    limits.bytes = state.limit_bytes.load(std::memory_order_relaxed);
    if (limits.bytes == 0) state.limit_bytes = limits.bytes = backend_of(device).window_bytes();
  }
  {
    const std::lock_guard lock(state.record);
    if (state.pending.size() < limits.nodes && state.depth < limits.depth && state.bytes < limits.bytes) return;
    // Most recorded values are gone or never stored: look closer before deciding.
    std::size_t held_bytes = 0;
    std::erase_if(state.pending, [&](const std::weak_ptr<Node>& weak) {
      const NodeRef node = weak.lock();
      if (node == nullptr) return true;
      if (node->handles.load(std::memory_order_relaxed) > 0) held_bytes += node->bytes();
      return false;
    });
    state.bytes = held_bytes;
    const bool crowded = limits.nodes == 1 ? !state.pending.empty() : state.pending.size() > limits.nodes / 2;
    if (!crowded && state.depth < limits.depth && held_bytes < limits.bytes) return;
  }
  flush(device);
}

namespace {

void flush_window(Device device, const NodeRef& wanted) {
  DeviceWindow& state = window_of(device);
  Backend& backend = backend_of(device);
  // Destroyed after the locks: releasing values may run the user's deleters.
  std::vector<NodeRef> pending;
  std::vector<NodeRef> dropped_inputs;
  const std::lock_guard executing(state.execute);
  if (state.unread.size() >= kMostUnread) settle(state, backend, dropped_inputs);
  pending = take_pending(state);
  try {
    std::vector<NodeRef> roots;
    for (const NodeRef& node : pending) {
      const bool done = node->ready.load(std::memory_order_relaxed);
      if (!done && node->handles.load(std::memory_order_relaxed) > 0) roots.push_back(node);
    }
    if (wanted != nullptr && !wanted->ready.load(std::memory_order_relaxed)) roots.push_back(wanted);
    if (roots.empty()) return;
    const auto drop_inputs = [&](Node& node) {
      for (NodeRef& input : node.inputs) dropped_inputs.push_back(std::move(input));
      node.inputs.clear();
    };
    Window window = describe(roots);
    if (spread_failures(window)) {
      std::erase_if(roots, [&](const NodeRef& root) {
        if (root->failure != nullptr) drop_inputs(*root);
        return root->failure != nullptr;
      });
      window = {};  // its references would hide that a value can be replaced
      window = describe(roots);
    }
    if (!roots.empty()) {
      const std::shared_ptr<const Plan> plan = plan_for(state, backend, window);
      Outcome outcome = execute(state, backend, window, *plan);
      backend.start();
      const auto checks = checks_of(state, window, *plan, outcome);
      std::vector<NodeRef> stored;
      for (std::size_t e = 0; e < outcome.buffers.size(); ++e) {
        if (!window.values[e].wanted) continue;
        Node& node = *window.nodes[e];
        drop_inputs(node);
        LOCKSTEP_ASSERT(outcome.buffers[e] != nullptr);
        if (!checks.empty()) node.checks = checks[e];
        node.buffer = std::move(outcome.buffers[e]);
        node.ready.store(true, std::memory_order_release);
        stored.push_back(window.nodes[e]);
      }
      remember_stored(stored);
    }
  } catch (...) {
    put_back(state, pending);  // nothing was published: the values can still be computed
    throw;
  }
  if (is_host(device) || state.unread_bytes > kMostUnreadBytes) settle(state, backend, dropped_inputs);
  if (wanted != nullptr && wanted->failure != nullptr) std::rethrow_exception(wanted->failure);
}

}  // namespace

void flush(Device device, const NodeRef& wanted) {
  with_largest_tensors(device, [&] { flush_window(device, wanted); });
}

namespace {

// A read ends the window, also that of a value which a full window has computed already: so a loop that reads a value
// in each step ends its windows at the same places in each, and finds its plans again. Not a read of given data, which
// threads may do at any time beside the one that records.
void end_window(const Node& node) {
  if (std::holds_alternative<Data>(node.op) || window_statistics(node.device).pending == 0) return;
  try {
    flush(node.device);
  } catch (const Error&) {
    // It is about other values. They are still pending, and say it when they are read.
  }
}

}  // namespace

void compute(const NodeRef& node) {
  if (!node->ready.load(std::memory_order_acquire)) {
    flush(node->device, node);
  } else {
    end_window(*node);
  }
  if (is_unsettled(*node)) {
    DeviceWindow& state = window_of(node->device);
    std::vector<NodeRef> released;
    const std::lock_guard executing(state.execute);
    settle(state, backend_of(node->device), released);
  }
  if (const std::exception_ptr error = error_of(*node)) std::rethrow_exception(error);
}

DenseData dense_data(const NodeRef& node) {
  const Reading reading = reading_of(node);
  compute(reading.base);
  if (reading.view.is_contiguous()) {
    return {reading.base->buffer, static_cast<std::size_t>(reading.view.offset) * size_of(node->dtype)};
  }
  const CallScope call(node->name, node->where);
  const NodeRef copy = make_node(Elementwise{.op = Op::copy}, {node}, node->shape, node->dtype, node->device);
  compute(copy);
  return {copy->buffer, 0};
}

std::vector<std::string> planned_kernels(std::span<const NodeRef> nodes) {
  std::vector<NodeRef> roots;
  for (const NodeRef& node : nodes) {
    const Reading reading = reading_of(node);
    if (!reading.base->ready.load(std::memory_order_acquire)) roots.push_back(reading.base);
  }
  std::vector<std::string> lines;
  if (roots.empty()) return lines;
  const std::lock_guard executing(window_of(roots[0]->device).execute);
  const Window window = describe(roots);
  for (const Step& step : schedule(entries_of(window))) lines.push_back(to_string(step.kernel));
  return lines;
}

WindowStatistics window_statistics(Device device) {
  DeviceWindow& state = window_of(device);
  const std::lock_guard lock(state.record);
  return {state.pending.size(), state.kernels.load(), state.moved_bytes.load(), state.plans_made.load(),
          state.plans_reused.load()};
}

}  // namespace graph

WorkStatistics work_statistics(Device device) {
  const graph::WindowStatistics statistics = graph::window_statistics(device);
  return {statistics.kernels, statistics.bytes};
}

}  // namespace v0
}  // namespace lockstep
