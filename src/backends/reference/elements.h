// How kernels that are no row programs read and write elements, one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/backend.h"
#include "kernels/scalar.h"
#include "kernels/storage.h"

namespace lockstep {
inline namespace v0 {
namespace reference {

using Index = std::array<std::int64_t, Shape::kCapacity>;

inline std::byte* slot(const Binding& binding, int number) {
  return binding.slots[static_cast<std::size_t>(number)];
}

inline std::uint64_t word_at(const Input& input, const Binding& binding, const std::int64_t* index) {
  const std::int64_t address = input.view.address(index);
  return address < 0 ? input.view.fill : load_word(input.dtype, slot(binding, input.slot), address);
}

template <typename T> T value_at(const Input& input, const Binding& binding, const std::int64_t* index) {
  return decode<T>(input.dtype, word_at(input, binding, index));
}

inline std::int64_t dot_index(const Shape& strides, const std::int64_t* index) {
  std::int64_t sum = 0;
  for (int d = 0; d < strides.rank(); ++d) sum += strides[d] * index[d];
  return sum;
}

/// Calls function(T()) for the compute type of `dtype`.
template <typename Function> void with_compute_type(DType dtype, Function function) {
  switch (compute_type(dtype)) {
    case ComputeType::f32: return function(float());
    case ComputeType::f64: return function(double());
    case ComputeType::i32: return function(std::int32_t());
    case ComputeType::i64: return function(std::int64_t());
  }
}

}  // namespace reference
}  // namespace v0
}  // namespace lockstep
