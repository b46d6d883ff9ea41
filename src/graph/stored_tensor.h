// A tensor whose elements are there already.
#pragma once

#include <lockstep/tensor.h>

#include "core/buffer.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// `buffer`, on `device`, holds the elements, dense and row-major; nobody changes them any more.
Tensor stored_tensor(BufferRef buffer, const Shape& shape, DType dtype, Device device);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
