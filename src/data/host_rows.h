// A tensor's elements as bytes of the host, gathered row by row of its first dimension. Neither records an op, so the
// threads of a loader never disturb what the program is computing meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <lockstep/tensor.h>

#include "core/buffer.h"

namespace lockstep {
inline namespace v0 {
namespace data {

/// Computes the tensor; one of another device is copied to the CPU. Keeps the memory alive.
class HostRows {
 public:
  HostRows(const Tensor& tensor);

  /// The same elements, on the CPU (or the reference device).
  const Tensor& tensor() const { return tensor_; }
  /// In row-major order; not necessarily aligned for the elements.
  std::span<const std::byte> bytes() const { return bytes_; }
  /// The rows at `indices`, as a tensor of the CPU. Throws IndexError.
  Tensor gather(std::span<const std::int64_t> indices) const;

 private:
  Tensor tensor_;
  BufferRef buffer_;
  std::span<const std::byte> bytes_;
};

}  // namespace data
}  // namespace v0
}  // namespace lockstep
