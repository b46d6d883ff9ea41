// A tensor whose elements are there already.
#pragma once

#include <lockstep/tensor.h>

#include "core/buffer.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// `buffer`, on `device`, holds the elements, dense and row-major; nobody changes them any more.
Tensor stored_tensor(BufferRef buffer, const Shape& shape, DType dtype, Device device);
/// A tensor of f16 or bf16 as f32 numbers that stay in that memory (Encoding::f16, bf16); others as they are. What is
/// pending is computed.
Tensor packed_as_f32(const Tensor& tensor);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
