// Building blocks of the op rules: nodes behind tensors, already checked.
#pragma once

#include <optional>
#include <vector>

#include <lockstep/ops.h>

#include "graph/check.h"
#include "graph/node.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

inline const NodeRef& node_of(const Tensor& tensor) { return Access::node(tensor); }

/// An elementwise op with all checks: devices, dtypes, broadcasting, scalars.
Tensor elementwise(Op op, const std::vector<Operand>& operands);
/// dtype conversion without checks of devices; the same tensor if nothing changes.
Tensor cast(const Tensor& tensor, DType dtype, CallSite site);
/// Keeps dims with size 1. Dtypes as the primitive wants them (sums of integers: i64).
Tensor reduce(ReduceOp op, const Tensor& a, std::uint32_t dims, CallSite site, const Tensor* b = nullptr);
/// Drops the dims of `mask` (which have size 1) unless keepdim.
Tensor drop_dims(const Tensor& tensor, std::uint32_t mask, bool keepdim, CallSite site);

/// The tensor as a view over the dense elements of `base`.
Tensor view_tensor(const NodeRef& base, View view, DType dtype, CallSite site);
/// How a tensor reads its base, and the tensor that owns the elements (the operand itself unless it is a view).
Reading read(const Tensor& tensor);
/// Elements in memory of their own, row-major.
Tensor stored(const Tensor& tensor, CallSite site);
/// Applies `change` to the tensor's view; where the result is no view, stores the elements first.
template <typename Change>
Tensor change_view(const Tensor& tensor, CallSite site, Change change) {
  Reading reading = read(tensor);
  std::optional<View> view = change(reading.view);
  if (!view) {
    reading = read(stored(tensor, site));
    view = change(reading.view);
  }
  const Tensor result = view_tensor(reading.base, std::move(*view), tensor.dtype(), site);
  // Errors about a view still say whose view it is.
  return tensor.name().empty() ? result : result.named(tensor.name());
}

/// A composition's working type: f16 and bf16 compute in f32 and round once at the end.
inline DType wide(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype; }

/// The bits of an element of `dtype` with this value.
std::uint64_t element_bits(double value, DType dtype);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
