// Sequential makes its layers itself, so that they know where they are.
// fails with: write net\.add<nn::Linear>\(2, 2\)
#include <lockstep/nn.h>

namespace lockstep {

void make() {
#ifdef LOCKSTEP_MUST_FAIL
  nn::Sequential net(nn::Linear(2, 2), nn::ReLU());
#else
  nn::Sequential net;
  net.add<nn::Linear>(2, 2);
  net.add<nn::ReLU>();
#endif
}

}  // namespace lockstep
