// The gradient column of ops.def: what an elementwise op passes on to its operands, as graph code.
#pragma once

#include <vector>

#include <lockstep/tensor.h>

#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// The gradient of op(inputs...) = result with respect to operand `of`, given the upstream gradient `g`, in the result's
/// shape (not yet summed over broadcast dimensions). Only what gradient_reads names has to be defined.
Tensor elementwise_gradient(Op op, std::size_t of, std::span<const Tensor> inputs, const Tensor& result,
                            const Tensor& g);
/// How many operands have a gradient: 0 for comparisons and integer ops. For `where`: 3, the condition's is undefined.
std::size_t gradient_count(Op op);
/// What the gradient of operand `of` reads: bit 0 to 2 operands a to c, bit 3 the result.
inline constexpr unsigned kReadsResult = 8;
unsigned gradient_reads(Op op, std::size_t of);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
