#include "graph/tape.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/assert.h"
#include "core/call.h"
#include "core/pool.h"
#include "graph/check.h"
#include "graph/live_tensors.h"
#include "graph/record.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

thread_local bool gradients_on = true;
thread_local ReadRecords* read_records = nullptr;

}  // namespace

bool set_gradients_on(bool on) {
  return std::exchange(gradients_on, on);
}

bool gradients_are_on() {
  return gradients_on;
}

ReadRecords::ReadRecords() : outer_(std::exchange(read_records, this)) {}
ReadRecords::~ReadRecords() {
  read_records = outer_;
}

void ReadRecords::add(const std::shared_ptr<Record>& record) {
  if (known_.insert(record.get()).second) records_.push_back(record);
  if (outer_ != nullptr) outer_->add(record);
}

// Releasing a long chain recursively would overflow the stack: the outermost destructor releases all.
Record::~Record() {
  static thread_local std::vector<std::shared_ptr<Record>>* releasing = nullptr;
  std::vector<std::shared_ptr<Record>> pending;
  const bool outermost = releasing == nullptr;
  if (outermost) releasing = &pending;
  for (Operand& operand : operands) {
    if (operand.record != nullptr) releasing->push_back(std::move(operand.record));
  }
  rule = nullptr;  // its tensors may hold records, too
  if (!outermost) return;
  while (!pending.empty()) {
    const std::shared_ptr<Record> last = std::move(pending.back());
    pending.pop_back();
  }
  releasing = nullptr;
}

bool is_tracing(std::span<const Tensor* const> operands) {
  const auto is_tracked = [](const Tensor* operand) {
    return operand != nullptr && Access::handle(*operand)->record != nullptr;
  };
  if (gradients_on) return std::any_of(operands.begin(), operands.end(), is_tracked);
  if (read_records != nullptr) {
    for (const Tensor* operand : operands) {
      if (is_tracked(operand)) read_records->add(Access::handle(*operand)->record);
    }
  }
  return false;
}

Tensor traced(const Tensor& result, std::span<const Tensor* const> operands, Rule rule, bool reads_result) {
  LOCKSTEP_ASSERT(is_float(result.dtype()));
  const NodeRef& node = Access::node(result);
  auto record = make_pooled<Record>();
  record->id = node->id;
  record->name = call_now().op;
  record->shape = node->shape;
  record->dtype = node->dtype;
  record->where = call_now().site;
  record->operands.reserve(operands.size());
  for (const Tensor* operand : operands) {
    const std::shared_ptr<Handle>& handle = Access::handle(*operand);
    record->operands.push_back({handle->record, operand->shape(), operand->dtype()});
    // Views may be younger than what is made of them; consumers come first in any case.
    if (handle->record != nullptr) record->id = std::max(record->id, handle->record->id + 1);
  }
  record->rule = std::move(rule);
  if (reads_result) record->result = Kept(make_pooled<Handle>(node), nullptr);
  auto handle = make_pooled<Handle>(node, std::move(record));
  handle->name = result.name();
  remember_name(handle);
  return Access::from_handle(std::move(handle));
}

Tensor traced(const Tensor& result, std::span<const Tensor* const> operands,
              std::span<const std::shared_ptr<Record>> further, Rule rule) {
  Tensor value = traced(result, operands, std::move(rule));
  Record& record = *Access::handle(value)->record;
  for (const std::shared_ptr<Record>& one : further) {
    record.operands.push_back({one, one->shape, one->dtype});
    record.id = std::max(record.id, one->id + 1);
  }
  return value;
}

Tensor leaf(const Tensor& tensor, std::shared_ptr<Tensor> sink) {
  return leaf(tensor, std::move(sink), tensor.name());
}

Tensor leaf(const Tensor& tensor, std::shared_ptr<Tensor> sink, const std::string& name) {
  const NodeRef& node = Access::node(tensor);
  if (node->encoding != Encoding::dense) fail_packed(node, "has no gradient");
  auto record = make_pooled<Record>();
  record->id = node->id;
  record->name = "leaf";
  record->shape = node->shape;
  record->dtype = node->dtype;
  record->where = call_now().site;
  record->is_leaf = true;
  record->sink = std::move(sink);
  auto handle = make_pooled<Handle>(node, std::move(record));
  handle->name = name;
  remember_name(handle);
  return Access::from_handle(std::move(handle));
}

Tensor untraced(const Tensor& tensor) {
  const std::shared_ptr<Handle>& handle = Access::handle(tensor);
  return handle->record == nullptr ? tensor : untraced(tensor, handle->name);
}

Tensor untraced(const Tensor& tensor, const std::string& name) {
  auto bare = make_pooled<Handle>(Access::node(tensor));
  bare->name = name;
  remember_name(bare);
  return Access::from_handle(std::move(bare));
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
