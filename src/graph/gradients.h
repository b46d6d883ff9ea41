// The gradient column of ops.def: what an elementwise op passes on to its operands, as graph code.
#pragma once

#include <vector>

#include <lockstep/tensor.h>

#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// Gradients of op(inputs...) = result with respect to its float operands, given the upstream gradient `g`, in the
/// result's shape (not yet summed over broadcast dimensions). For `where`: of the two values, not the condition.
/// Empty where the op has no gradient (comparisons, integer ops).
std::vector<Tensor> elementwise_gradients(Op op, const std::vector<Tensor>& inputs, const Tensor& result,
                                          const Tensor& g);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
