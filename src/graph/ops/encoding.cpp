// Packed tensors as dense ones. Unpacking is a gather whose indices are the positions: gathers decode on every device.
#include "graph/make.h"
#include "graph/ops/indexing.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

Tensor dequantize(const Operand& packed) {
  const CallScope call("dequantize", packed);
  const Tensor& tensor = tensor_of(packed);
  if (tensor.encoding() == Encoding::dense) return tensor;
  const Tensor source = at_least_1d(tensor);
  Shape column = Shape::filled(source.rank(), 1);
  column[0] = source.shape()[0];
  const Tensor places = Access::tensor(make_node(Iota{}, {}, {column[0]}, DType::i64, tensor.device()));
  return graph::gather(source, 0, places.reshape(column).expand(source.shape())).reshape(tensor.shape());
}

}  // namespace v0
}  // namespace lockstep
