// && cannot be overloaded without losing what it is; masks have &.
// fails with: write a & b
#include <lockstep/ops.h>

namespace lockstep {

Tensor inside(const Tensor& x) {
#ifdef LOCKSTEP_MUST_FAIL
  return x > 0 && x < 5;
#else
  return (x > 0) & (x < 5);
#endif
}

}  // namespace lockstep
