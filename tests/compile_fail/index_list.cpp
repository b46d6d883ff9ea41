// Several entries of an index need braces: before C++23 a comma in [] throws the first away.
// fails with: write x\[\{a, b\}\]
#include <lockstep/tensor.h>

namespace lockstep {

Tensor column(const Tensor& x) {
#ifdef LOCKSTEP_MUST_FAIL
  return x[Slice{}, 0];
#else
  return x[{Slice{}, 0}];
#endif
}

}  // namespace lockstep
