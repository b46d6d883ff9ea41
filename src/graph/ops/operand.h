// What compositions over elements share: operands checked together, and taken to the type they compute in.
#pragma once

#include <vector>

#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// The operand's tensor. ValueError if it is a scalar or undefined.
inline const Tensor& tensor_operand(const char* op, const Operand& a) {
  check_defined(op, {{"input", a}}, a.site());
  if (a.is_scalar()) {
    fail<ValueError>(op, "needs a tensor operand", {{"input", a}}, "make the scalar a tensor, e.g. full({}, 1.0)",
                     a.site());
  }
  return a.tensor();
}

/// A float tensor in the type that compositions work in. DTypeError for others.
inline Tensor widened(const char* op, const Operand& a) {
  const Tensor& tensor = tensor_operand(op, a);
  check_float(op, {"input", tensor}, a.site());
  return cast(tensor, wide(tensor.dtype()), a.site());
}

/// An operand that lives as long as this: a tensor in the working type, or a scalar.
class Working {
 public:
  Working(const Operand& a, DType dtype, CallSite site) : scalar_(a.is_scalar() ? a.scalar() : 0), site_(site) {
    if (!a.is_scalar()) tensor_ = cast(a.tensor(), dtype, site);
  }
  operator Operand() const { return tensor_.defined() ? Operand(tensor_, site_) : Operand(scalar_, site_); }

 private:
  Tensor tensor_;
  double scalar_;
  CallSite site_;
};

/// Operands of one device and dtype, of which at least one is a tensor.
struct Together {
  DType dtype;    ///< of the tensors, and of the result
  DType working;  ///< what a composition computes in
  CallSite site;
};
inline Together together(const char* op, const Operands& operands, CallSite site, bool floats_only) {
  check_same_device(op, operands, site);
  check_same_dtype(op, operands, site);
  for (const Shown& shown : operands) {
    if (shown.tensor == nullptr) continue;
    if (floats_only) check_float(op, shown, site);
    return {shown.tensor->dtype(), wide(shown.tensor->dtype()), site};
  }
  fail<ValueError>(op, "needs a tensor operand", operands, "make one of the scalars a tensor, e.g. full({}, 1.0)",
                   site);
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
