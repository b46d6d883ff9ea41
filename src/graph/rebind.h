// Giving a handle a new value, as x += y and x[0] = y do.
#pragma once

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace graph {

/// `tensor` becomes `value`. Where it was a leaf and the value has no history (the change was made under NoGrad), it
/// stays that leaf: the same gradient and hooks. ShapeError if a leaf's shape would change.
void rebind(Tensor& tensor, const Tensor& value);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
