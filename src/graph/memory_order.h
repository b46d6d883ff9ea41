// In what order the elements of a result lie in memory: row-major, but in fast numerics, whose convolutions give
// channels last, as those of an operand do, so that networks stay in that order from one convolution to the next.
// What is computed is the same.
#pragma once

#include <cstdint>
#include <utility>

#include <lockstep/numerics.h>

#include "graph/node.h"
#include "graph/record.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// In the order of the first of `inputs` that has another one than row-major.
Tensor made_in_order_of(Primitive op, Inputs inputs, const Shape& shape, DType dtype, Device device);
/// What a primitive of Form::elementwise makes of `inputs` (null: scalars), which broadcast to `shape`. Inline, for
/// each such op goes through here.
template <typename P>
Tensor made_in_order(const P& op, Inputs&& inputs, const Shape& shape, DType dtype, Device device) {
  if (current_numerics() == Numerics::fast) return made_in_order_of(op, std::move(inputs), shape, dtype, device);
  return Access::tensor(make_node(op, std::move(inputs), shape, dtype, device));
}
/// What a reduction over `dims` makes of inputs of one shape; reduced dims have size 1.
Tensor reduced_in_order(ReduceOp op, Inputs inputs, std::uint32_t dims, DType dtype, Device device);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
