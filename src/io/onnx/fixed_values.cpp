#include "io/onnx/fixed_values.h"

#include <algorithm>
#include <utility>

#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

// Values that are held here are not written in place, and nodes are immutable.
bool is_same(const Value& a, const Value& b) {
  if (!a.is_tensor() || !b.is_tensor()) return false;
  if (a.host() != nullptr || b.host() != nullptr) return a.host() == b.host();
  return graph::node_of(a.tensor()) == graph::node_of(b.tensor());
}

}  // namespace

FixedValues::Kept FixedValues::find(std::span<const Value> sources) const {
  const std::lock_guard lock(mutex_);
  const bool same =
      values_ != nullptr && std::equal(sources.begin(), sources.end(), sources_.begin(), sources_.end(), is_same);
  return same ? values_ : nullptr;
}
void FixedValues::keep(std::vector<Value> sources, Kept values) {
  const std::lock_guard lock(mutex_);
  sources_ = std::move(sources);
  values_ = std::move(values);
}
void FixedValues::refuse() {
  const std::lock_guard lock(mutex_);
  refused_ = true;
}
bool FixedValues::refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
