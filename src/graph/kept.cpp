#include "graph/kept.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/pool.h"
#include "graph/describe.h"
#include "graph/recompute.h"
#include "graph/window.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

// A pending f32 value, and what it is made of.
struct Making {
  std::vector<NodeRef> values;  ///< that are computed again, the last one first
  std::vector<NodeRef> read;    ///< as they are read: perhaps views
};

bool is_pending(const NodeRef& value) {
  return !value->ready.load(std::memory_order_acquire) && value->encoding == Encoding::dense;
}

bool is_elements(const NodeRef& value) {
  return form_of(value->op) == Form::elementwise && traits_of(value->op).reads_anywhere == 0;
}

// Whether less is kept by what `value` is made of than by itself.
bool find_making(const NodeRef& value, Making& making) {
  if (value->dtype != DType::f32 || !is_pending(value) || !is_elements(value)) return false;
  const std::unique_lock<std::mutex> lock = hold_pending(value->device);
  if (!lock.owns_lock() || !is_pending(value)) return false;
  std::size_t bytes = 0;
  int cost = 0;
  making.values.push_back(value);
  for (std::size_t i = 0; i < making.values.size(); ++i) {
    const NodeRef node = making.values[i];
    if (const auto* op = std::get_if<Elementwise>(&node->op)) cost += info_of(op->op).is_cheap ? 1 : kDearOp;
    if (cost > kMostAgain) return false;
    for (const NodeRef& input : node->inputs) {
      if (input == nullptr) continue;
      const NodeRef& base = base_of(input);
      if (base->source) return false;
      const bool few = base->shape.numel() * kFewer <= value->shape.numel();
      if (is_pending(base) && is_elements(base) && size_of(base->dtype) > 2 && !few) {
        making.values.push_back(base);
        continue;
      }
      bytes += base->bytes();
      if (bytes >= value->bytes()) return false;
      making.read.push_back(input);
    }
  }
  return true;
}

}  // namespace

struct Kept::Again {
  NodeRef node;
  std::shared_ptr<Record> record;
  std::vector<std::shared_ptr<Handle>> read;
};

Kept::Kept(std::shared_ptr<Handle> handle, std::shared_ptr<Record> record) {
  Making making;
  if (!find_making(base_of(handle->node), making)) {
    handle_ = record == handle->record ? std::move(handle) : make_pooled<Handle>(handle->node, std::move(record));
    return;
  }
  auto again = std::make_shared<Again>();
  again->node = handle->node;
  again->record = std::move(record);
  for (const NodeRef& read : making.read) again->read.push_back(make_pooled<Handle>(read));
  for (const NodeRef& value : making.values) value->again.store(true, std::memory_order_relaxed);
  again_ = std::move(again);
}

Tensor Kept::tensor() const {
  if (handle_ != nullptr) return Access::from_handle(handle_);
  return Access::from_handle(make_pooled<Handle>(again_->node, again_->record));
}

Tensor Kept::tensor(std::shared_ptr<Record> record) const {
  return Access::from_handle(make_pooled<Handle>(handle_ != nullptr ? handle_->node : again_->node, std::move(record)));
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
