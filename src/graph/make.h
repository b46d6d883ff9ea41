// Building blocks of the op rules: nodes behind tensors, already checked.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include <lockstep/ops.h>

#include "graph/check.h"
#include "graph/node.h"
#include "graph/record.h"
#include "graph/tape.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

inline const NodeRef& node_of(const Tensor& tensor) {
  return Access::node(tensor);
}

/// An elementwise op with all checks: devices, dtypes, broadcasting, scalars. Its call is named after its row, where no
/// other is open.
Tensor elementwise(Op op, std::span<const Operand* const> operands);
inline Tensor elementwise(Op op, const Operand& a) {
  const Operand* const operands[] = {&a};
  return elementwise(op, operands);
}
inline Tensor elementwise(Op op, const Operand& a, const Operand& b) {
  const Operand* const operands[] = {&a, &b};
  return elementwise(op, operands);
}
inline Tensor elementwise(Op op, const Operand& a, const Operand& b, const Operand& c) {
  const Operand* const operands[] = {&a, &b, &c};
  return elementwise(op, operands);
}
/// dtype conversion without checks of devices; the same tensor if nothing changes.
Tensor cast(const Tensor& tensor, DType dtype);
/// The 16-bit value that `value` is a pending copy of in f32, in the same order; null if it is none.
NodeRef widened_from(const NodeRef& value);
/// Keeps dims with size 1. Dtypes as the primitive wants them (sums of integers: i64).
Tensor reduce(ReduceOp op, const Tensor& a, std::uint32_t dims, const Tensor* b = nullptr);
/// The table and the index that an op was given, as its error of a bad index shows them.
struct GivenIndex {
  const char* label;
  const Tensor& table;
  const Tensor& index;
};
/// The elements of `source` at `index` (i32 or i64) along `dim`; the result has the index's shape. In the other
/// dimensions sizes are equal. A bad index gives zero, and an IndexError naming `name` when the result is read.
/// The values of `index` are those of the given index in its order, each perhaps repeated along other dimensions.
/// `failure`: what a bad index means, where it is none of the user's.
Tensor gather(const Tensor& source, int dim, const Tensor& index, const std::optional<GivenIndex>& given = {},
              Failure failure = Failure::index);
/// `self` with the elements at `index` along `dim` combined with `values`; index and values have one shape, not larger
/// than self's outside `dim`. docs/numerics.md section 7.
Tensor scatter(ScatterOp op, const Tensor& self, int dim, const Tensor& index, const Tensor& values, bool include_self,
               const std::optional<GivenIndex>& given = {});
/// Running results along `dim`, of the input's dtype (positions: i64).
Tensor scan(ScanOp op, const Tensor& a, int dim);
/// The stable permutation (i64) that sorts along `dim`.
Tensor sort_indices(const Tensor& a, int dim, bool descending);
/// `self` with its elements `region` (a view over self's dense elements without bounds, none twice) replaced by
/// `values`, which has the region's shape. In place where nothing else holds self.
Tensor update(const Tensor& self, const View& region, const Tensor& values);
/// The transform along dim 1 of x [before, elements, after] or [before, elements, after, 2], with the roots of its plan
/// (kernels/fourier.h), times `scale`.
Tensor fourier(FourierKind kind, std::int64_t n, double scale, const Tensor& x, const Tensor& roots);
/// What Attend makes, of operands as it says, scores times `scale`. `behind`: absent where every query sees all keys.
Tensor attend(Numerics numerics, const Tensor& query, const Tensor& key, const Tensor& value,
              std::optional<std::int64_t> behind, double scale);
/// The same in exact numerics for one row of each head; `mask` tells which keys it sees.
Tensor attend_masked(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask, double scale);
/// And the gradients that belong to the gradient `upstream` of its results; `made` is what attend() made.
Tensor attend_gradients(Numerics numerics, const Tensor& query, const Tensor& key, const Tensor& value,
                        const Tensor& made, const Tensor& upstream, std::optional<std::int64_t> behind, double scale);
/// What Recur makes of its operands, in its order.
Tensor recur(const Recur& recur, std::span<const Tensor> operands);
/// Drops the dims of `mask` (which have size 1) unless keepdim.
Tensor drop_dims(const Tensor& tensor, std::uint32_t mask, bool keepdim);

/// The tensor as a view over the dense elements of `base`.
Tensor view_tensor(const NodeRef& base, View view, DType dtype);
/// How a tensor reads its base, and the tensor that owns the elements (the operand itself unless it is a view).
Reading read(const Tensor& tensor);
/// Elements in memory of their own, row-major.
Tensor stored(const Tensor& tensor);
/// `result`, which reads `from` through `view`, with its record (graph/gradient_rules.h has those of the others).
Tensor trace_view(const Tensor& result, const Tensor& from, const View& view);
/// Applies `change` to the tensor's view; where the result is no view, stores the elements first.
template <typename Change> Tensor change_view(const Tensor& tensor, Change change) {
  Reading reading = read(tensor);
  std::optional<View> view = change(reading.view);
  if (!view) {
    reading = read(stored(tensor));
    view = change(reading.view);
  }
  Tensor result = view_tensor(reading.base, std::move(*view), tensor.dtype());
  if (is_tracing({&tensor})) result = trace_view(result, tensor, *change(View::contiguous(tensor.shape())));
  // Errors about a view still say whose view it is.
  return tensor.name().empty() ? result : result.named(tensor.name());
}

/// A composition's working type: f16 and bf16 compute in f32 and round once at the end.
inline DType wide(DType dtype) {
  return is_float(dtype) ? dtype_of(compute_type(dtype)) : dtype;
}

/// The bits of an element of `dtype` with this value.
std::uint64_t element_bits(double value, DType dtype);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
