// What contractions share: operands as views, dtypes, and products over lists of dimensions.
#pragma once

#include <vector>

#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// What products of this dtype are summed in and returned as by the primitive.
DType accumulated(DType dtype);
/// What an op returns: floats round back to what they came from, integers stay accumulated.
DType returned(DType dtype);

/// Tensors (no scalars), defined, on one device, of one dtype.
void check_operands(const Operands& shown);

/// A gradient as it is multiplied with operands of `dtype` of an op: as it is, but in fast numerics in that dtype.
Tensor as_multiplied(const Tensor& gradient, DType dtype, Numerics numerics);

/// The primitive over two readings, whose operands have `dtype`, in the numerics that the thread has for that; the
/// result has shape (b..., m..., n...) and the accumulation dtype.
Tensor contract(Contract primitive, const Reading& a, const Reading& b, DType dtype);

/// The view of a tensor changed by `change`; stores the elements where the result would be no view.
template <typename Change> Reading reading_as(const Tensor& tensor, Change change) {
  Reading reading = read(tensor);
  if (std::optional<View> view = change(reading.view)) return {reading.base, std::move(*view)};
  reading = read(stored(tensor));
  return {reading.base, *change(reading.view)};
}

/// A view with dimensions of `sizes` inserted at `position` along which nothing changes.
View repeated(const View& view, int position, const Shape& sizes);

/// Which dimensions of two operands play which part; batch and k pair up in the order given.
struct ContractionDims {
  Shape batch_a, batch_b;
  Shape m;         ///< of a
  Shape n;         ///< of b
  Shape k_a, k_b;  ///< summed, the first one outermost
};
/// Sums over k in the accumulation dtype; the result has the sizes (batch..., m..., n...). Batch sizes are equal.
Tensor contract_dims(const Tensor& a, const Tensor& b, const ContractionDims& dims);

/// a [batch..., m, k] x b [batch..., k, n] with ranks >= 2 and batches that broadcast, in the accumulation dtype.
Tensor batched_matmul(const Tensor& a, const Tensor& b);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
