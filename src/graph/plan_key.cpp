#include "graph/plan_key.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

std::uint8_t rank_of(const Shape& shape) {
  return static_cast<std::uint8_t>(shape.rank());
}

void append_sizes(PlanKey& key, const Shape& shape) {
  for (const std::int64_t size : shape) key.push_back(static_cast<std::uint64_t>(size));
}

}  // namespace

void append(PlanKey& key, const Shape& shape) {
  append(key, rank_of(shape));
  append_sizes(key, shape);
}

void append(PlanKey& key, const View& view) {
  const auto& [shape, strides, offset, bounds, fill] = view;
  append(key, rank_of(shape), rank_of(strides), static_cast<std::uint32_t>(bounds.size()));
  append_sizes(key, shape);
  append_sizes(key, strides);
  append(key, offset);
  if (bounds.empty()) return;  // what is read is never the fill value
  append(key, fill);
  for (const Bound& bound : bounds) {
    const auto& [start, m, lo, hi, step, stride] = bound;
    append(key, m);
    append(key, start, lo, hi, step, stride);
  }
}

void append(PlanKey& key, const Primitive& primitive) {
  visit_primitive(
      [&](const auto& alternative) {
        SmallValues small;
        small.add(key, static_cast<std::uint8_t>(primitive.index()));
        for_each_field(alternative, [&]<typename F>(const F&, const auto& member) {
          if constexpr (F::use != FieldUse::structure) {
            return;
          } else if constexpr (requires { small.add(key, member); }) {
            small.add(key, member);
          } else {
            append(key, member);
          }
        });
        small.end(key);
      },
      primitive);
}

PlanKey key_of(const Window& window) {
  PlanKey key;
  key.reserve(window.nodes.size() * 16);
  for (std::size_t e = 0; e < window.nodes.size(); ++e) {
    const Node& node = *window.nodes[e];
    const Window::Value& value = window.values[e];
    const std::span<const int> operands = window.operands(e);
    append(key, value.given, value.wanted, value.canonical, kernel_dtype(node.dtype), node.encoding,
           rank_of(node.shape), static_cast<std::uint8_t>(operands.size()));
    append_sizes(key, node.shape);
    if (value.given) continue;  // how it was computed no longer matters
    append(key, node.op);
    // An operand's shape, and with it what dense reading of it means, is in the key; so is the shape it is expanded to.
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const auto* view = operands[i] < 0 ? nullptr : std::get_if<ViewOf>(&node.inputs[i]->op);
      append(key, operands[i], view != nullptr);
      if (view != nullptr) append(key, view->view);
    }
  }
  return key;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
