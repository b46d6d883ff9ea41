#include "graph/early_read.h"

#include "backends/backend.h"
#include "graph/window.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

EarlyRead::EarlyRead(const Tensor& tensor) : tensor_(tensor) {
  auto* const device = dynamic_cast<CopiesToHost*>(&backend_of(tensor.device()));
  const NodeRef& node = Access::node(tensor);
  const DenseData data = started_data(node);
  if (device == nullptr || node->bytes() == 0 || !reading_of(node).view.is_contiguous()) return;
  base_ = reading_of(node).base;
  copy_ =
      begin_reading(base_, *device, [&] { return device->begin_download(*data.buffer, node->bytes(), data.offset); });
}

std::vector<std::byte> EarlyRead::bytes() {
  if (copy_ != nullptr) {
    finish_reading(base_);
    const std::span<const std::byte> copied = copy_->bytes();
    return {copied.begin(), copied.end()};
  }
  std::vector<std::byte> all(Access::node(tensor_)->bytes());
  tensor_.read_bytes(all.data());
  return all;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
