// In what order the elements of a result lie in memory: row-major, but in fast numerics, whose convolutions give
// channels last, as those of an operand do, so that networks stay in that order from one convolution to the next.
// What is computed is the same.
#pragma once

#include <cstdint>

#include "graph/node.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// What a primitive of Form::elementwise makes of `inputs` (null: scalars), which broadcast to `shape`.
Tensor made_in_order(Primitive op, Inputs inputs, const Shape& shape, DType dtype, Device device);
/// What a reduction over `dims` makes of inputs of one shape; reduced dims have size 1.
Tensor reduced_in_order(ReduceOp op, Inputs inputs, std::uint32_t dims, DType dtype, Device device);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
