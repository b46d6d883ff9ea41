// A tensor is no condition: a comparison gives a mask, and what its truth is has to be said.
// fails with: write equal\(a, b\)
#include <lockstep/ops.h>

namespace lockstep {

bool same(const Tensor& a, const Tensor& b) {
#ifdef LOCKSTEP_MUST_FAIL
  if (a == b) return true;
  return false;
#else
  return equal(a, b);
#endif
}

}  // namespace lockstep
