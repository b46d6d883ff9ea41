#include "graph/dense_data.h"

#include "graph/record.h"
#include "graph/recording.h"
#include "graph/window.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

namespace {

DenseData data_of(const NodeRef& node, void (*compute)(const NodeRef&)) {
  if (node->encoding != Encoding::dense) fail_packed(node, "has no elements in memory");
  record_reading(node);
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

}  // namespace

DenseData dense_data(const NodeRef& node) {
  return data_of(node, compute);
}

DenseData started_data(const NodeRef& node) {
  return data_of(node, start_computing);
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
