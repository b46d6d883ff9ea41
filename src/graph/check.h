// Checks of the op rules, besides those of lockstep/check.h.
#pragma once

#include <lockstep/check.h>

#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// DTypeError if `dtype` is storage-only (is_storage_only).
void check_computes(DType dtype, const Operands& operands);

/// Makes `result` what it and `shape` broadcast to; the dimension of the result in which they do not, else -1.
int broadcast(Shape& result, const Shape& shape);
/// NumPy broadcasting. ShapeError names the operands.
Shape broadcast_shape(const Operands& operands);
/// The dimensions of a list, each once, counted from the end if negative. None: all. Bit d set: dimension d.
std::uint32_t check_dims(const Tensor& tensor, const Dims& dims);
/// ShapeError unless the shape has at most kMaxRank dimensions, no negative size and fewer than 2^63 bytes.
void check_shape(const Shape& shape, DType dtype);

/// The bits of a C++ scalar in the compute type of `dtype`. DTypeError if an integer type cannot hold it.
Scalar encode_scalar(double value, DType dtype);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
