// What a flush has to look at: the pending values that some nodes need, in an order in which they can be computed. From
// this the scheduler gets its entries, and the plan cache its key (graph/plan_key.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/entry.h"
#include "graph/node.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// Values by their place in the list; never views. References keep the nodes alive.
struct Window {
  struct Value {
    bool given = false;      ///< its buffer exists already
    bool wanted = false;     ///< its value must be stored
    bool canonical = false;  ///< f32/bf16: free of subnormals
    std::uint32_t first_operand = 0;
    std::uint32_t operand_count = 0;
  };
  std::vector<NodeRef> nodes;
  std::vector<Value> values;
  std::vector<int> all_operands;  ///< the places of what the inputs of nodes read; -1: a scalar
  bool may_fail = false;          ///< some value has failed, or depends on a check of indices

  std::span<const int> operands(std::size_t value) const {
    return std::span(all_operands).subspan(values[value].first_operand, values[value].operand_count);
  }
  /// Lets go of the nodes, and keeps the lists' memory for the next window unless that is much.
  void clear();
};

/// Everything that `roots` need, them included.
Window describe(std::span<const NodeRef> roots);
/// The same into a window that is empty, or clear().
void describe(std::span<const NodeRef> roots, Window& window);
std::vector<Entry> entries_of(const Window& window);
/// The node that is read when `node` is: behind a view, its input.
inline const NodeRef& base_of(const NodeRef& node) {
  return form_of(node->op) == Form::view ? node->inputs[0] : node;
}
/// Whether a value is free of subnormals; looks at given data once.
bool find_canonical(Node& node);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
