// What compositions over elements share: operands checked together, and taken to the type they compute in.
#pragma once

#include <vector>

#include "graph/autocast.h"
#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// A float tensor in the type that compositions work in. DTypeError for others.
inline Tensor widened(const Operand& a) {
  const Tensor& tensor = tensor_operand(a);
  check_float({"input", tensor});
  return cast(tensor, wide(tensor.dtype()));
}

/// An operand that lives as long as this: a tensor in the working type, or a scalar.
class Working {
 public:
  Working(const Operand& a, DType dtype) : scalar_(a.is_scalar() ? a.scalar() : 0) {
    if (!a.is_scalar()) tensor_ = cast(a.tensor(), dtype);
  }
  operator Operand() const { return tensor_.defined() ? Operand(tensor_) : Operand(scalar_); }

 private:
  Tensor tensor_;
  double scalar_;
};

/// The types of operands of one device and dtype; scalars take them. At least one operand is a tensor.
struct Promoted {
  DType dtype;    ///< of the tensors, and of the result
  DType working;  ///< what a composition computes in
};
inline Promoted promote(const Operands& operands, bool floats_only) {
  check_same_device(operands);
  if (is_autocasting()) {
    std::vector<const Tensor*> tensors;
    for (const Shown& shown : operands) {
      if (shown.tensor != nullptr) tensors.push_back(shown.tensor);
    }
    if (is_mixed(tensors)) return {DType::f32, DType::f32};
  }
  check_same_dtype(operands);
  for (const Shown& shown : operands) {
    if (shown.tensor == nullptr) continue;
    if (floats_only) check_float(shown);
    return {shown.tensor->dtype(), wide(shown.tensor->dtype())};
  }
  fail<ValueError>("needs a tensor operand", operands, "make one of the scalars a tensor, e.g. full({}, 1.0)");
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
