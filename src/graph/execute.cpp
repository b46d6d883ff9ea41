#include "graph/execute.h"

#include <optional>
#include <span>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "graph/address_index.h"
#include "graph/borrowed_memory.h"
#include "graph/groups.h"
#include "graph/kernel_watch.h"
#include "graph/trace.h"
#include "graph/trace_kernels.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

bool is_users(const Node& node) {
  return form_of(node.op) == Form::given && !node.computed;
}

// Whether the memory of a given value may be written: it came from a kernel, and only its update still needs it.
bool is_replaceable(const NodeRef& node) {
  constexpr int kWindowAndUpdate = 2;
  if (node->stands_in) return node->buffer.use_count() == 1;
  return !is_users(*node) && node->handles.load(std::memory_order_relaxed) == 0 &&
         node.use_count() == kWindowAndUpdate && node->buffer.use_count() == 1;
}

// Which given values nobody but this window's own nodes refers to: they can go as soon as they were read. (Another
// thread may be recording a node that reads a value whose handles are gone already: only the counts tell.) Not memory
// of the user's, whose deleters must not run here, nor what indices are computed from, which is looked at after a
// fault.
std::vector<bool> find_droppable(const Window& window, bool has_checks) {
  std::vector<bool> droppable(window.nodes.size(), false);
  bool any = false;
  for (std::size_t e = 0; e < window.nodes.size(); ++e) {
    const Node& node = *window.nodes[e];
    droppable[e] = window.values[e].given && !is_users(node) && node.handles.load(std::memory_order_relaxed) == 0;
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
  AddressIndex<Node> view_index;
  for (std::size_t e = 0; e < window.nodes.size(); ++e) {
    const std::span<const int> operands = window.operands(e);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] < 0 || !droppable[static_cast<std::size_t>(operands[i])]) continue;
      const auto base = static_cast<std::size_t>(operands[i]);
      const NodeRef& input = window.nodes[e]->inputs[i];
      if (form_of(input->op) != Form::view) {
        ++uses[base];
      } else if (view_index.add(input.get())) {
        views.push_back({&input, base, 1});
        ++uses[base];
      } else {
        ++views[static_cast<std::size_t>(view_index[input.get()])].uses;
      }
    }
  }
  for (const ViewUse& use : views) {
    if (use.view->use_count() != use.uses) droppable[use.base] = false;
  }
  std::vector<bool> kept(window.nodes.size(), false);
  for (std::size_t e = has_checks ? window.nodes.size() : 0; e-- > 0;) {
    const bool checked = traits_of(window.nodes[e]->op).checks_index;
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

// Before anything is computed: of a product of 4 PB the operands may have gigabytes.
void check_every_value_fits(const Backend& backend, const Window& window, const Plan& plan) {
  const std::size_t limit = backend.memory_bytes();
  if (plan.largest <= limit) return;
  for (const Plan::Prepared& prepared : plan.steps) {
    for (const int entry : prepared.step.writes) {
      const Node& node = *window.nodes[static_cast<std::size_t>(entry)];
      if (node.bytes() <= limit) continue;
      throw OutOfMemoryError(
          fmt::format("{}: {} bytes can never be allocated: the device has {}\n  requested  {} {}  {} at {}:{}\n"
                      "  fix: compute in parts, or on another device",
                      backend.device().to_string(), node.bytes(), limit, name_of(node.dtype), node.shape.to_string(),
                      node.name, node.where.file, node.where.line));
    }
  }
}

Scalar parameter(const Window& window, const ParameterSource& source) {
  if (source.entry < 0) return source.constant;
  return parameter_of(window.nodes[static_cast<std::size_t>(source.entry)]->op, source.position);
}

}  // namespace

std::vector<BufferRef> execute(Backend& backend, const Window& window, const Plan& plan, const BufferRef& fault_words,
                               WorkCount& work) {
  check_every_value_fits(backend, window, plan);
  std::vector<BufferRef> buffers(window.nodes.size());
  const std::vector<bool> droppable = find_droppable(window, plan.checks > 0);
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
    if (window.values[e].given) buffers[e] = window.nodes[e]->buffer;
  }
  BorrowedMemory borrowed(window);
  std::vector<std::byte*> slots;
  std::vector<Buffer*> given;
  std::vector<Scalar> parameters;
  slots.reserve(kMaxBuffers);
  given.reserve(kMaxBuffers);
  parameters.reserve(kMaxBuffers);
  std::span<std::uint32_t> faults;
  std::size_t next_fault = 0;
  const std::vector<std::unique_ptr<FlushWatch>> watches = watches_of(backend, window, plan);
  std::optional<TraceKernels> trace;
  if (std::shared_ptr<TraceLog> log = trace_log()) {
    backend.finish();
    trace.emplace(std::move(log), window, plan);
  }
  if (plan.checks > 0) faults = {reinterpret_cast<std::uint32_t*>(fault_words->data()), plan.checks};
  const Plan::Launches& launches = plan.launches_of(!watches.empty());
  for (const Plan::Launch& launch : launches.kernels) {
    const auto entries = [&](std::uint32_t first, std::uint32_t last) {
      return std::span(launches.entries).subspan(first, last - first);
    };
    bool replaced = false;
    if (launch.replaces >= 0) {
      const auto from = static_cast<std::size_t>(launch.replaces);
      const auto to = static_cast<std::size_t>(launches.entries[launch.made]);
      if (!window.values[from].given) {
        buffers[to] = buffers[from];
        replaced = true;
      } else if (buffers[from] = nullptr; borrowed.is_aligned(from) && is_replaceable(window.nodes[from])) {
        Node& node = *window.nodes[from];
        buffers[from] = buffers[to] = std::move(node.buffer);
        buffers[to]->overwrite();
        lost.nodes.push_back(&node);
        replaced = true;
      } else {
        buffers[from] = window.nodes[from]->buffer;
      }
    }
    for (std::uint32_t i = launch.made; i < launch.released && !replaced; ++i) {
      buffers[static_cast<std::size_t>(launches.entries[i])] = backend.allocate(launches.bytes[i]);
    }
    slots.clear();
    given.clear();
    for (const int entry : entries(launch.slots, launch.made)) {
      const auto e = static_cast<std::size_t>(entry);
      if (borrowed.has(e)) {
        slots.push_back(borrowed.address(e, slots.size(), *launch.executable));
      } else {
        // A chain's own results (graph/chains.h) have no memory.
        slots.push_back(buffers[e] == nullptr ? nullptr : buffers[e]->data());
      }
      const bool stays = window.values[e].given && !(replaced && entry == launch.replaces);
      given.push_back(stays ? buffers[e].get() : nullptr);
    }
    parameters.clear();
    for (std::uint32_t i = launch.parameters; i < launch.parameters_end; ++i) {
      parameters.push_back(parameter(window, launches.parameters[i]));
    }
    const Plan::Prepared& prepared = plan.steps[launch.step];
    const KernelRun run{backend, window, prepared.step, buffers, parameters, replaced};
    for (const auto& watch : watches) watch->before(run);
    const auto start = trace ? TraceClock::now() : TraceClock::time_point();
    launch.executable->run({slots, parameters, faults, next_fault, given});
    next_fault += launch.checks;
    work.kernels.fetch_add(1, std::memory_order_relaxed);
    const std::size_t bytes = replaced ? launch.bytes_in_place : launch.bytes;
    work.bytes.fetch_add(bytes, std::memory_order_relaxed);
    if (trace) {
      backend.finish();
      trace->add(prepared, bytes, start);
    }
    for (const auto& watch : watches) watch->after(run);
    const std::span<const int> released = entries(launch.released, launch.end);
    borrowed.ran(entries(launch.slots, launch.made), *launch.executable, released);
    for (const int entry : released) {
      const auto e = static_cast<std::size_t>(entry);
      buffers[e].reset();
      if (!droppable[e] || window.nodes[e]->buffer == nullptr) continue;
      window.nodes[e]->buffer.reset();
      window.nodes[e]->aligned.reset();
      lost.nodes.push_back(window.nodes[e].get());
    }
  }
  lost.done = true;
  return buffers;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
