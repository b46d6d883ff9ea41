#include "graph/describe.h"

#include <algorithm>
#include <cstring>

#include "backends/backend.h"
#include "core/elements.h"
#include "graph/lower.h"
#include "graph/numbers.h"
#include "kernels/storage.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

bool has_subnormals(const Node& node) {
  const std::byte* data = node.buffer->data();
  const std::size_t count = static_cast<std::size_t>(node.shape.numel());
  bool found = false;
  if (node.dtype == DType::f32) {
    // Without early exit in the inner loop, so that it vectorises.
    for (std::size_t start = 0; start < count && !found; start += 4096) {
      std::uint32_t any = 0;
      for (std::size_t i = start; i < std::min(count, start + 4096); ++i) {
        std::uint32_t bits;
        std::memcpy(&bits, data + 4 * i, 4);
        any |= static_cast<std::uint32_t>((bits & 0x7fffffffu) - 1u < 0x00800000u);
      }
      found = any != 0;
    }
  } else {
    LOCKSTEP_ASSERT(size_of(node.dtype) == 2);
    for (std::size_t i = 0; i < count && !found; ++i) {
      std::uint16_t bits;
      std::memcpy(&bits, data + 2 * i, 2);
      found = !is_canonical(node.dtype, bits);
    }
  }
  return found;
}

// Whether a value is free of subnormals; looks at given data once.
bool find_canonical(Node& node) {
  if (!zeroes_subnormals(node.dtype)) return true;
  std::int8_t known = node.canonical.load(std::memory_order_relaxed);
  if (known >= 0) return known == 1;
  const auto* elementwise = std::get_if<Elementwise>(&node.op);
  const auto* view = std::get_if<ViewOf>(&node.op);
  bool canonical = true;
  if (const auto* full = std::get_if<Full>(&node.op)) {
    canonical = is_canonical(DType::f32, full->value.bits);
  } else if (node.ready.load(std::memory_order_acquire)) {
    canonical = is_host(node.device) && !has_subnormals(node);  // GPUs look while they load
  } else if (view != nullptr) {
    canonical =
        find_canonical(*node.inputs[0]) && (view->view.bounds.empty() || is_canonical(node.dtype, view->view.fill));
  } else if (std::holds_alternative<Gather>(node.op) || std::holds_alternative<Scatter>(node.op) ||
             std::holds_alternative<Update>(node.op)) {
    for (const NodeRef& input : node.inputs) {
      canonical = canonical && (input->dtype != node.dtype || find_canonical(*input));
    }
  } else if (elementwise != nullptr && info_of(elementwise->op).kind == OpKind::move) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != nullptr) {
        canonical = canonical && (node.inputs[i]->dtype != node.dtype || find_canonical(*node.inputs[i]));
      } else {
        canonical = canonical && is_canonical(DType::f32, elementwise->scalars[i].bits);
      }
    }
  }
  node.canonical.store(canonical ? 1 : 0, std::memory_order_relaxed);
  return canonical;
}

bool is_trivial(const Node& node) {
  return std::holds_alternative<Full>(node.op) || std::holds_alternative<Iota>(node.op);
}

// The node that is read when `node` is: behind a view, its input.
const NodeRef& base_of(const NodeRef& node) {
  return std::holds_alternative<ViewOf>(node->op) ? node->inputs[0] : node;
}

// The view through which `node`, which is not given, reads its input `i`.
View view_of_operand(const Node& node, std::size_t i) {
  if (const auto* contract = std::get_if<Contract>(&node.op)) return i == 0 ? contract->a_view : contract->b_view;
  const auto* gather = std::get_if<Gather>(&node.op);
  if (gather != nullptr && i == 0) return gather->source;
  View view = reading_of(node.inputs[i]).view;
  const bool own_shape = std::holds_alternative<Reduce>(node.op) || is_irregular(node.op);
  return own_shape || view.shape == node.shape ? view : view.expanded(node.shape);
}

class KeyWriter {
 public:
  explicit KeyWriter(PlanKey& key) : key_(key) {}

  void operator()(std::uint64_t word) { key_.push_back(word); }
  void operator()(std::int64_t word) { key_.push_back(static_cast<std::uint64_t>(word)); }
  void operator()(int word) { key_.push_back(static_cast<std::uint64_t>(word)); }

  void operator()(const Shape& shape) {
    (*this)(shape.rank());
    for (const std::int64_t size : shape) (*this)(size);
  }

  void operator()(const View& view) {
    (*this)(view.shape);
    (*this)(view.strides);
    (*this)(view.offset);
    (*this)(view.bounds.size());
    if (view.bounds.empty()) return;
    (*this)(view.fill);
    for (const Bound& bound : view.bounds) {
      (*this)(bound.offset);
      (*this)(bound.m);
      (*this)(bound.lo);
      (*this)(bound.hi);
      (*this)(bound.step);
      (*this)(bound.stride);
    }
  }

  void operator()(const Primitive& op) {
    if (const auto* elementwise = std::get_if<Elementwise>(&op)) {
      (*this)(static_cast<int>(elementwise->op));
    } else if (const auto* reduce = std::get_if<Reduce>(&op)) {
      (*this)(static_cast<int>(reduce->op));
      (*this)(std::uint64_t{reduce->dims});
    } else if (const auto* random = std::get_if<Random>(&op)) {
      (*this)(static_cast<int>(random->word));
    } else if (const auto* contract = std::get_if<Contract>(&op)) {
      (*this)(contract->b);
      (*this)(contract->m);
      (*this)(contract->n);
      (*this)(contract->k);
      (*this)(contract->a_view);
      (*this)(contract->b_view);
    } else if (const auto* gather = std::get_if<Gather>(&op)) {
      (*this)(gather->source);
      (*this)(gather->stride);
      (*this)(gather->size);
    } else if (const auto* scatter = std::get_if<Scatter>(&op)) {
      (*this)(static_cast<int>(scatter->op) << 8 | scatter->dim << 1 | int{scatter->include_self});
    } else if (const auto* scan = std::get_if<Scan>(&op)) {
      (*this)(static_cast<int>(scan->op) << 8 | scan->dim);
    } else if (const auto* sort = std::get_if<Sort>(&op)) {
      (*this)(sort->dim << 1 | int{sort->descending});
    } else if (const auto* update = std::get_if<Update>(&op)) {
      (*this)(update->region);
    }
  }

 private:
  PlanKey& key_;
};

}  // namespace

Window describe(std::span<const NodeRef> roots) {
  Numbers<Node> numbers;
  std::vector<const NodeRef*> found;  // members of nodes that `roots` keep alive
  std::vector<const NodeRef*> stack;
  for (const NodeRef& root : roots) stack.push_back(&root);
  while (!stack.empty()) {
    const NodeRef& node = *stack.back();
    stack.pop_back();
    if (!numbers.add(node.get())) continue;
    found.push_back(&node);
    if (node->ready.load(std::memory_order_acquire)) continue;
    for (const NodeRef& input : node->inputs) {
      if (input != nullptr) stack.push_back(&base_of(input));
    }
  }
  std::vector<std::pair<std::uint64_t, const NodeRef*>> order;
  order.reserve(found.size());
  for (const NodeRef* node : found) order.emplace_back((*node)->id, node);
  std::sort(order.begin(), order.end());
  Window window;
  window.nodes.reserve(order.size());
  for (const auto& [id, node] : order) {
    numbers[node->get()] = static_cast<int>(window.nodes.size());
    window.nodes.push_back(*node);
  }

  window.values.reserve(window.nodes.size());
  window.all_operands.reserve(2 * window.nodes.size());
  for (const NodeRef& node : window.nodes) {
    Window::Value value;
    value.given = node->ready.load(std::memory_order_acquire);
    value.wanted = !value.given && !is_trivial(*node) && node->handles.load(std::memory_order_relaxed) > 0;
    value.canonical = find_canonical(*node);
    value.first_operand = static_cast<std::uint32_t>(window.all_operands.size());
    if (!value.given) {
      for (const NodeRef& input : node->inputs) {
        window.all_operands.push_back(input == nullptr ? -1 : numbers[base_of(input).get()]);
      }
      value.operand_count = static_cast<std::uint32_t>(node->inputs.size());
    }
    window.values.push_back(value);
  }
  for (const NodeRef& root : roots) {
    Window::Value& value = window.values[static_cast<std::size_t>(numbers[root.get()])];
    value.wanted = !value.given;
  }
  return window;
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

PlanKey key_of(const Window& window) {
  PlanKey key;
  key.reserve(window.nodes.size() * 16);
  KeyWriter write(key);
  for (std::size_t e = 0; e < window.nodes.size(); ++e) {
    const Node& node = *window.nodes[e];
    const Window::Value& value = window.values[e];
    write(int{value.given} | int{value.wanted} << 1 | int{value.canonical} << 2 |
          static_cast<int>(kernel_dtype(node.dtype)) << 3);
    write(node.shape);
    if (value.given) continue;  // how it was computed no longer matters
    write(static_cast<int>(node.op.index()));
    write(node.op);
    // An operand's shape, and with it what dense reading of it means, is in the key; so is the shape it is expanded to.
    const std::span<const int> operands = window.operands(e);
    write(static_cast<int>(operands.size()));
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const auto* view = operands[i] < 0 ? nullptr : std::get_if<ViewOf>(&node.inputs[i]->op);
      write(std::int64_t{operands[i]} << 1 | std::int64_t{view != nullptr});
      if (view != nullptr) write(view->view);
    }
  }
  return key;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
