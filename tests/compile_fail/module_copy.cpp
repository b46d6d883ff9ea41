// Modules are not copied by assignment: members and children point to each other.
// fails with: write nn::clone
#include <lockstep/nn.h>

namespace lockstep {

void twice(const nn::Linear& layer) {
#ifdef LOCKSTEP_MUST_FAIL
  nn::Linear copy = layer;
#else
  auto copy = nn::clone(layer, 2, 2);
#endif
}

}  // namespace lockstep
