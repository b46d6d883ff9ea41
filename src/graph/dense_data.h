// A value as dense row-major bytes: what reading a tensor starts with.
#pragma once

#include <cstddef>

#include "graph/node.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// Elements that start `offset` bytes into a buffer.
struct DenseData {
  BufferRef buffer;
  std::size_t offset = 0;
};
/// Computes `node`, and stores what a view of it reads unless that is a piece of memory already. DTypeError if it is
/// packed.
DenseData dense_data(const NodeRef& node);
/// The same without waiting: its elements are there for what comes later in the order of the device's work.
DenseData started_data(const NodeRef& node);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
