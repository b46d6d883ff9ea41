// How gradients pass through the primitives, except for elementwise ops (their rule is a column of kernels/ops.def) and
// contractions (theirs stand beside the ops in graph/ops, for they need the roles of the dimensions).
#pragma once

#include "graph/tape.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// g summed (R) to `shape`, which broadcasts to g's shape.
Tensor sum_to(const Tensor& g, const Shape& shape);

/// The sum, for each of the dense elements of a tensor of shape `shape`, of the elements of g (of view.shape) that `view`
/// reads from it.
Tensor view_gradient(const Tensor& g, const View& view, const Shape& shape);

// The results of primitives with their records, where a float operand is tracked. Each is called by the function that
// makes the node.
Tensor trace_elementwise(const Tensor& result, Op op, std::span<const lockstep::Operand* const> operands);
Tensor trace_cast(const Tensor& result, const Tensor& from);
Tensor trace_reduce(const Tensor& result, ReduceOp op, std::uint32_t dims, const Tensor& a, const Tensor* b);
Tensor trace_gather(const Tensor& result, const Tensor& source, int dim, const Tensor& index);
Tensor trace_scatter(const Tensor& result, ScatterOp op, const Tensor& self, int dim, const Tensor& index,
                     const Tensor& values, bool include_self);
Tensor trace_scan(const Tensor& result, ScanOp op, const Tensor& a, int dim);
Tensor trace_update(const Tensor& result, const Tensor& self, const View& region, const Tensor& values);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
