#include "graph/node.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

void Inputs::grow() {
  const std::uint32_t room = 2 * room_;
  NodeRef* const nodes = std::allocator<NodeRef>().allocate(room);
  std::uninitialized_move_n(nodes_, size_, nodes);
  const std::uint32_t size = size_;
  clear();
  nodes_ = nodes;
  size_ = size;
  room_ = room;
}

void Inputs::give_back() {
  std::allocator<NodeRef>().deallocate(nodes_, room_);
  nodes_ = in_place_;
  room_ = kInPlace;
}

void Inputs::take_elsewhere(Inputs& other) {
  nodes_ = std::exchange(other.nodes_, other.in_place_);
  size_ = std::exchange(other.size_, 0);
  room_ = std::exchange(other.room_, kInPlace);
}

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
