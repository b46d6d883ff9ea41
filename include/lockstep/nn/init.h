// Initial values of layers, as PyTorch's layers choose them, drawn from the calling thread's generator.
#pragma once

#include <cstdint>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

/// f32, uniform in [-bound, bound): rand * 2 bound - bound. Takes one draw, so no two tensors share values.
LOCKSTEP_API Tensor uniform_init(const Shape& shape, double bound);
/// 1 / sqrt(fan_in), the bound that PyTorch's Linear and Conv use for weight and bias; 0 for a fan-in of 0.
LOCKSTEP_API double fan_in_bound(std::int64_t fan_in);

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
