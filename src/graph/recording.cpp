#include "graph/recording.h"

#include <algorithm>
#include <utility>

#include <lockstep/error.h>

#include "graph/check.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

thread_local Recording* recording = nullptr;

}  // namespace

Recording::Recording(const std::vector<Tensor>& given) : outer_(std::exchange(recording, this)) {
  for (const Tensor& tensor : given) given_.insert(Access::node(tensor).get());
}

Recording::~Recording() {
  recording = outer_;
}

const RecordedNode* Recording::find(const Node* node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? nullptr : &found->second;
}

bool Recording::depends(const NodeRef& node) const {
  if (node == nullptr) return false;
  const RecordedNode* const found = find(node.get());
  return given_.contains(node.get()) || (found != nullptr && found->depends);
}

bool is_recording() {
  return recording != nullptr;
}

void record_node(const NodeRef& node) {
  if (recording == nullptr) return;
  RecordedNode entry{.node = node, .inputs = {node->inputs.begin(), node->inputs.end()}, .call = {}};
  entry.depends = std::any_of(entry.inputs.begin(), entry.inputs.end(),
                              [](const NodeRef& input) { return recording->depends(input); });
  recording->nodes_[node.get()] = std::move(entry);
}

void record_call(const Tensor& result, RecordedCall call) {
  if (recording == nullptr || !result.defined()) return;
  const NodeRef& node = Access::node(result);
  const auto found = recording->nodes_.find(node.get());
  if (found == recording->nodes_.end()) return;
  // An operand that is younger was made of the result: the call gave back what it began with.
  for (const NodeRef& operand : call.operands) {
    if (operand != nullptr && operand->id >= node->id) return;
  }
  found->second.call = std::move(call);
}

void record_reading(const NodeRef& node) {
  if (recording == nullptr || !recording->depends(node)) return;
  fail<ValueError>("a value that is being recorded is read on the host", {},
                   "what depends on its elements cannot be recorded; keep the computation in tensors");
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
