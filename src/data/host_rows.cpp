#include "data/host_rows.h"

#include <cstring>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "graph/dense_data.h"

namespace lockstep {
inline namespace v0 {
namespace data {

HostRows::HostRows(const Tensor& tensor) : tensor_(tensor) {
  const DeviceKind kind = tensor.device().kind;
  if (kind != DeviceKind::cpu && kind != DeviceKind::ref) tensor_ = tensor.to(Device{});
  const graph::DenseData data = graph::dense_data(graph::Access::node(tensor_));
  buffer_ = data.buffer;
  const auto bytes = static_cast<std::size_t>(tensor_.numel()) * size_of(tensor_.dtype());
  if (bytes > 0) bytes_ = {buffer_->data() + data.offset, bytes};
}

Tensor HostRows::gather(std::span<const std::int64_t> indices) const {
  const std::int64_t rows = tensor_.size(0);
  const std::size_t row_bytes = rows == 0 ? 0 : bytes_.size() / static_cast<std::size_t>(rows);
  std::vector<std::byte> gathered(indices.size() * row_bytes);
  std::byte* out = gathered.data();
  for (const std::int64_t index : indices) {
    if (index < 0 || index >= rows) {
      throw IndexError(fmt::format("Dataset::fetch: example {} of a data set of {}", index, rows));
    }
    if (row_bytes > 0) std::memcpy(out, bytes_.data() + static_cast<std::size_t>(index) * row_bytes, row_bytes);
    out += row_bytes;
  }
  Shape shape = tensor_.shape();
  shape[0] = static_cast<std::int64_t>(indices.size());
  return Tensor::from_bytes(gathered.data(), gathered.size(), shape, tensor_.dtype(), Device{});
}

}  // namespace data
}  // namespace v0
}  // namespace lockstep
