#include "graph/memory_order.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <lockstep/numerics.h>

#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

// The dimensions outside `last` from the farthest neighbours to the nearest, then those of `last` as they are; nothing
// where that is row-major order, or where elements repeat.
std::optional<Shape> order_of(const NodeRef& node, std::uint32_t last) {
  if (node == nullptr || node->encoding != Encoding::dense) return std::nullopt;
  const auto* const view_of = std::get_if<ViewOf>(&node->op);
  if (view_of == nullptr) return std::nullopt;
  const View& view = view_of->view;
  Shape order;
  for (int d = 0; d < view.rank(); ++d) {
    if ((last >> d & 1u) != 0) continue;
    if (view.shape[d] != 1 && view.strides[d] <= 0) return std::nullopt;
    order.push_back(d);
  }
  // Dimensions of one element go along with those before them.
  Shape far = view.strides;
  for (int i = 1; i < order.rank(); ++i) {
    const int d = static_cast<int>(order[i]);
    if (view.shape[d] == 1) far[d] = far[static_cast<int>(order[i - 1])];
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return far[static_cast<int>(a)] > far[static_cast<int>(b)]; });
  if (std::is_sorted(order.begin(), order.end())) return std::nullopt;
  for (int d = 0; d < view.rank(); ++d) {
    if ((last >> d & 1u) != 0) order.push_back(d);
  }
  return order;
}

NodeRef permuted(const NodeRef& node, const Shape& shape, const Shape& order) {
  const Reading reading = reading_of(node);
  View view = reading.view.expanded(shape).permuted(order);
  const Shape sizes = view.shape;
  return make_node(ViewOf{std::move(view)}, {reading.base}, sizes, node->dtype, node->device);
}

Shape permuted(const Shape& shape, const Shape& order) {
  Shape result;
  for (const std::int64_t d : order) result.push_back(shape[static_cast<int>(d)]);
  return result;
}

// The node, whose dimensions are in `order`, in row-major order of its own.
Tensor put_back(const NodeRef& node, const Shape& order) {
  Shape inverse = order;
  for (int d = 0; d < order.rank(); ++d) inverse[static_cast<int>(order[d])] = d;
  return view_tensor(node, View::contiguous(node->shape).permuted(inverse), node->dtype);
}

}  // namespace

Tensor made_in_order_of(Primitive op, Inputs inputs, const Shape& shape, DType dtype, Device device) {
  for (const NodeRef& input : inputs) {
    if (input == nullptr || input->shape != shape) continue;
    const std::optional<Shape> order = order_of(input, 0);
    if (!order) continue;
    Inputs moved;
    for (const NodeRef& each : inputs) moved.push_back(each == nullptr ? nullptr : permuted(each, shape, *order));
    return put_back(make_node(std::move(op), std::move(moved), permuted(shape, *order), dtype, device), *order);
  }
  return Access::tensor(make_node(std::move(op), std::move(inputs), shape, dtype, device));
}

Tensor reduced_in_order(ReduceOp op, Inputs inputs, std::uint32_t dims, DType dtype, Device device) {
  Shape shape = inputs[0]->shape;
  const std::optional<Shape> order = current_numerics() == Numerics::fast ? order_of(inputs[0], dims) : std::nullopt;
  if (order) {
    Inputs moved;
    for (const NodeRef& each : inputs) moved.push_back(permuted(each, shape, *order));
    shape = permuted(shape, *order);
    std::uint32_t last = 0;
    for (int d = 0; d < shape.rank(); ++d) {
      if ((dims >> order->begin()[d] & 1u) != 0) last |= 1u << d;
    }
    for (int d = 0; d < shape.rank(); ++d) shape[d] = (last >> d & 1u) != 0 ? 1 : shape[d];
    return put_back(make_node(Reduce{op, last}, std::move(moved), shape, dtype, device), *order);
  }
  for (int d = 0; d < shape.rank(); ++d) shape[d] = (dims >> d & 1u) != 0 ? 1 : shape[d];
  return Access::tensor(make_node(Reduce{op, dims}, std::move(inputs), shape, dtype, device));
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
