// A view is a value of its own: what is assigned to it, nobody would see.
// fails with: write x\[\.\.\.\] = value
#include <lockstep/tensor.h>

namespace lockstep {

void first(Tensor& x) {
#ifdef LOCKSTEP_MUST_FAIL
  x.view(-1)[0] = 5;
#else
  x[{0, 0}] = 5;
#endif
}

}  // namespace lockstep
