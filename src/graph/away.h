// Given values whose memory comes and goes: parameters that lie with other processes. Whoever records an op that reads
// one, or reads it, asks its keeper for it first; a view of one needs no memory.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "graph/node.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

class Keeper {
 public:
  virtual ~Keeper();
  /// Gives those of these values that are its own their memory; the others are none of its concern. In the thread that
  /// records or reads; may record and flush. What it throws is the op's error.
  virtual void bring(const std::vector<const Node*>& nodes) = 0;
};

/// The keeper of a given value without memory (away_tensor in record.h); null: nobody brings it.
void keep_away(const NodeRef& node, const std::shared_ptr<Keeper>& keeper);
/// Whether the program ever had one: others pay for no more than this.
inline std::atomic<bool> any_away = false;
inline bool is_away(const Node& node) {
  return !node.ready.load(std::memory_order_acquire) && form_of(node.op) == Form::given;
}
void give_memory(Node& node, BufferRef buffer);
/// Nothing that is pending reads the value.
void take_memory(Node& node);

/// Those of `nodes` that are away are there afterwards. ValueError if the keeper is gone.
void bring(const std::vector<const Node*>& nodes);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
