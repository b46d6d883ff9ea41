// Reading a number computes and may fail, so it is no conversion.
// fails with: write x\.item
#include <lockstep/tensor.h>

namespace lockstep {

float read(const Tensor& loss) {
#ifdef LOCKSTEP_MUST_FAIL
  return float(loss);
#else
  return loss.item<float>();
#endif
}

}  // namespace lockstep
