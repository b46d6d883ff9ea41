// Recording: the door by which values enter the graph.
#pragma once

#include <memory>
#include <string_view>

#include "graph/node.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// Makes a node of the thread's call and, when it is work to be done, enters it into its device's window. Shapes and
/// dtypes are already checked by the op rules.
NodeRef make_node(Primitive op, Inputs inputs, const Shape& shape, DType dtype, Device device,
                  std::shared_ptr<const IndexStory> story = nullptr);

/// DTypeError for whoever needs elements one by one: "a tensor packed as q8_0 <what>", with what makes it dense.
[[noreturn]] void fail_packed(const NodeRef& node, std::string_view what);

class Keeper;
/// A given value without memory, which its keeper brings when it is read (away.h).
Tensor away_tensor(const std::shared_ptr<Keeper>& keeper, const Shape& shape, DType dtype, Device device);

/// Called with each new node of floats that is work to be done, before anybody holds it; null: nothing is.
using NodeWatch = void (*)(const NodeRef& node);
/// Sets that of this thread; returns what it was.
NodeWatch set_node_watch(NodeWatch watch);
/// Whether there is one: what would run without making nodes is then not what is wanted.
bool looks_at_new_nodes();

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
