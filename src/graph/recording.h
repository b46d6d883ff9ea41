// Recordings of what a thread's ops make of what, for those who write a computation down (io/onnx/export): each new
// node with its operands, which the node itself lets go once it is computed, and the public calls that a writer knows
// by name.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/node.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// A call of a composition, with what defines its result. Operands that are absent are null.
struct RecordedCall {
  std::string_view op;
  std::vector<NodeRef> operands;
  std::vector<Shape> lists;
  std::vector<double> numbers;
};

struct RecordedNode {
  NodeRef node;
  std::vector<NodeRef> inputs;
  std::optional<RecordedCall> call;  ///< the outermost that returned the node
  bool depends = false;              ///< on what the recording was given
};

/// While it lives, it holds what the thread records. The newest of a thread records alone.
class Recording {
 public:
  /// Of what is computed from `given`, whose values stand for others.
  explicit Recording(const std::vector<Tensor>& given);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// What was recorded of a node; null if it is older than the recording.
  const RecordedNode* find(const Node* node) const;

 private:
  friend void record_node(const NodeRef& node);
  friend void record_call(const Tensor& result, RecordedCall call);
  friend void record_reading(const NodeRef& node);
  bool depends(const NodeRef& node) const;

  std::unordered_map<const Node*, RecordedNode> nodes_;
  std::unordered_set<const Node*> given_;
  Recording* outer_;
};

bool is_recording();
/// For make_node.
void record_node(const NodeRef& node);
/// Notes that `result` is what the call computes; nothing if it is a value that was there before the call.
void record_call(const Tensor& result, RecordedCall call);
/// Somebody wants elements on the host: ValueError if they depend on what the recording was given, since what is done
/// with them would not be recorded.
void record_reading(const NodeRef& node);

/// `result`, noted as that of a call where somebody records. `operands`: null or undefined for absent ones.
inline Tensor recorded(Tensor result, std::string_view op, std::initializer_list<const Tensor*> operands,
                       std::initializer_list<Shape> lists = {}, std::initializer_list<double> numbers = {}) {
  if (!is_recording()) return result;
  RecordedCall call{.op = op, .operands = {}, .lists = lists, .numbers = numbers};
  for (const Tensor* operand : operands) {
    const bool given = operand != nullptr && operand->defined();
    call.operands.push_back(given ? Access::node(*operand) : nullptr);
  }
  record_call(result, std::move(call));
  return result;
}
inline const Tensor* pointer_to(const std::optional<Tensor>& tensor) {
  return tensor ? &*tensor : nullptr;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
