// What the tests of this room compute with.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

inline Tensor random(const Shape& shape, std::uint64_t seed, Device device = {}, DType dtype = DType::f32) {
  return random_tensor(shape, dtype, seed, device);
}

inline Tensor ids(const std::vector<std::int64_t>& values, const Shape& shape, Device device = {}) {
  return Tensor::from<std::int64_t>(values, shape, device);
}

/// The same elements in memory of their own.
inline Tensor copied(const Tensor& tensor) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype()));
  tensor.read_bytes(bytes.data());
  return Tensor::from_bytes(bytes.data(), bytes.size(), tensor.shape(), tensor.dtype(), tensor.device());
}

}  // namespace v0
}  // namespace lockstep
