#include "graph/describe.h"

#include <algorithm>

#include "backends/backend.h"
#include "core/assert.h"
#include "core/elements.h"
#include "core/per_thread.h"
#include "graph/address_index.h"
#include "kernels/storage.h"
#include "kernels/subnormals.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

// Of a value that is not computed yet, or a source: by what its elements are made of.
bool makes_canonical(const Node& node) {
  if (results_of(node.op) == Results::computed) return true;
  if (form_of(node.op) == Form::source) return is_canonical(DType::f32, parameter_of(node.op, 0).bits);
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == nullptr) {
      if (!is_canonical(DType::f32, parameter_of(node.op, static_cast<int>(i)).bits)) return false;
      continue;
    }
    if (node.inputs[i]->dtype == node.dtype && !find_canonical(*node.inputs[i])) return false;
    const View* const view = own_view_of(node.op, i);
    if (view != nullptr && !view->bounds.empty() && !is_canonical(node.dtype, view->fill)) return false;
  }
  return true;
}

}  // namespace

bool find_canonical(Node& node) {
  const DType held = held_dtype(node.encoding, node.dtype);
  if (!zeroes_subnormals(held) || is_blocks(node.encoding)) return true;  // words of blocks are decoded canonical
  const std::int8_t known = node.canonical.load(std::memory_order_relaxed);
  if (known >= 0) return known == 1;
  bool canonical = false;
  if (form_of(node.op) != Form::source && node.ready.load(std::memory_order_acquire)) {
    canonical = is_host(node.device) &&  // GPUs look while they load
                !has_subnormals(held, node.buffer->data(), static_cast<std::size_t>(node.shape.numel()));
  } else {
    canonical = makes_canonical(node);
  }
  node.canonical.store(canonical ? 1 : 0, std::memory_order_relaxed);
  return canonical;
}

namespace {

// The view through which `node`, which is not given, reads its input `i`.
View view_of_operand(const Node& node, std::size_t i) {
  if (const View* own = own_view_of(node.op, i)) return *own;
  View view = reading_of(node.inputs[i]).view;
  const bool expands = form_of(node.op) == Form::elementwise && view.shape != node.shape;
  return expands ? view.expanded(node.shape) : view;
}

}  // namespace

namespace {

constexpr std::size_t kMostKept = 8192;  // values; longer lists are rare

// Lists that a description needs while it is made. A thread keeps them: most windows are a few values, for which new
// memory would be half of the work.
struct Lists {
  AddressIndex<Node> place;
  // Members of nodes that the roots keep alive, and the nodes' numbers.
  std::vector<const NodeRef*> stack;
  std::vector<std::pair<std::uint64_t, const NodeRef*>> order;

  void clear() {
    if (order.capacity() > kMostKept) return void(*this = {});
    place.clear();
    stack.clear();
    order.clear();
  }
};

}  // namespace

void Window::clear() {
  if (nodes.capacity() > kMostKept) return void(*this = {});
  nodes.clear();
  values.clear();
  all_operands.clear();
  may_fail = false;
}

Window describe(std::span<const NodeRef> roots) {
  Window window;
  describe(roots, window);
  return window;
}

void describe(std::span<const NodeRef> roots, Window& window) {
  Lists& lists = of_this_thread<Lists>();
  lists.clear();
  auto& [place, stack, order] = lists;
  for (const NodeRef& root : roots) stack.push_back(&root);
  while (!stack.empty()) {
    const NodeRef& node = *stack.back();
    stack.pop_back();
    if (!place.add(node.get())) continue;
    order.emplace_back(node->id, &node);
    if (node->ready.load(std::memory_order_acquire)) continue;
    for (const NodeRef& input : node->inputs) {
      if (input != nullptr) stack.push_back(&base_of(input));
    }
  }
  std::sort(order.begin(), order.end());
  window.nodes.reserve(order.size());
  for (const auto& [id, node] : order) {
    place[node->get()] = static_cast<int>(window.nodes.size());
    window.nodes.push_back(*node);
  }

  window.values.reserve(window.nodes.size());
  window.all_operands.reserve(2 * window.nodes.size());
  for (const NodeRef& node : window.nodes) {
    Window::Value value;
    value.given = node->ready.load(std::memory_order_acquire);
    LOCKSTEP_ASSERT(value.given || form_of(node->op) != Form::given);  // away only when nothing pending reads it
    value.wanted = !value.given && node->handles.load(std::memory_order_relaxed) > 0 && !traits_of(node->op).is_trivial;
    value.canonical = find_canonical(*node);
    if (value.given ? node->checks != nullptr : node->failure != nullptr) window.may_fail = true;
    value.first_operand = static_cast<std::uint32_t>(window.all_operands.size());
    if (!value.given) {
      for (const NodeRef& input : node->inputs) {
        window.all_operands.push_back(input == nullptr ? -1 : place[base_of(input).get()]);
      }
      value.operand_count = static_cast<std::uint32_t>(node->inputs.size());
    }
    window.values.push_back(value);
  }
  for (const NodeRef& root : roots) {
    Window::Value& value = window.values[static_cast<std::size_t>(place[root.get()])];
    value.wanted = !value.given;
  }
}

std::vector<Entry> entries_of(const Window& window) {
  std::vector<Entry> entries;
  entries.reserve(window.nodes.size());
  for (std::size_t e = 0; e < window.nodes.size(); ++e) {
    const Node& node = *window.nodes[e];
    const Window::Value& value = window.values[e];
    Entry& entry = entries.emplace_back();
    entry.op = &node.op;
    entry.shape = node.shape;
    entry.dtype = kernel_dtype(node.dtype);
    entry.encoding = node.encoding;
    entry.given = value.given;
    entry.wanted = value.wanted;
    entry.canonical = value.canonical;
    const std::span<const int> operands = window.operands(e);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      entry.operands.push_back({operands[i], operands[i] < 0 ? View() : view_of_operand(node, i)});
    }
  }
  return entries;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
