#include "graph/node.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

// Releasing a long chain recursively would overflow the stack: the destructor at the greatest depth allowed releases
// all that is left.
Node::~Node() {
  constexpr int kMostDepth = 64;
  static thread_local int level = 0;
  static thread_local std::vector<NodeRef>* releasing = nullptr;
  if (level < kMostDepth) {
    ++level;
    inputs.clear();
    --level;
  } else if (releasing != nullptr) {
    for (NodeRef& input : inputs) releasing->push_back(std::move(input));
  } else {
    std::vector<NodeRef> pending;
    for (NodeRef& input : inputs) pending.push_back(std::move(input));
    releasing = &pending;
    while (!pending.empty()) {
      const NodeRef last = std::move(pending.back());
      pending.pop_back();
    }
    releasing = nullptr;
  }
}

Reading reading_of(const NodeRef& node) {
  if (const auto* view = std::get_if<ViewOf>(&node->op)) return {node->inputs[0], view->view};
  return {node, View::contiguous(node->shape)};
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
