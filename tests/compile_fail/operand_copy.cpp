// An operand ends with the expression that it stands in: a copy would outlive the tensor that it refers to.
// fails with: use of deleted function|call to deleted constructor
#include <lockstep/tensor.h>

namespace lockstep {

Shape inner(const Operand& x) {
  return x.tensor().shape();
}

// Handed on by reference, and made where an argument is wanted, it is what ops take.
Shape outer(const Operand& x) {
  return inner(x);
}
Shape of(const Tensor& x) {
  return outer(x);
}

struct Kept {
#ifdef LOCKSTEP_MUST_FAIL
  explicit Kept(const Operand& x) : operand(x) {}
  Operand operand;
#else
  explicit Kept(const Operand& x) : tensor(x.tensor()) {}
  Tensor tensor;
#endif
};

}  // namespace lockstep
