// What the ops with index tensors share.
#pragma once

#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// DTypeError unless the index is i32 or i64, DeviceError unless it is where the input is.
void check_index(const Tensor& input, const Tensor& index);
/// The operand's tensor; ValueError for scalars.
const Tensor& tensor_of(const Operand& a);
/// As in PyTorch a scalar is a tensor of one element for these ops.
Tensor at_least_1d(const Tensor& tensor);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
