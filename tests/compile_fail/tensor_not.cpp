// The opposite of a mask is ~, as in PyTorch.
// fails with: write ~a
#include <lockstep/ops.h>

namespace lockstep {

Tensor outside(const Tensor& mask) {
#ifdef LOCKSTEP_MUST_FAIL
  return !mask;
#else
  return ~mask;
#endif
}

}  // namespace lockstep
