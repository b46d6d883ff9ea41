// Nor what is added to it.
// fails with: write x\[\.\.\.\] \+= value
#include <lockstep/tensor.h>

namespace lockstep {

void first_row(Tensor& x) {
#ifdef LOCKSTEP_MUST_FAIL
  x.select(0, 0) += 1;
#else
  x[0] += 1;
#endif
}

}  // namespace lockstep
