// How the updates of Adam and of those like it begin.
#pragma once

#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

/// Decays the value, or, where that is not decoupled, adds the decay to the gradient; then the gradient's moments,
/// states 0 and 1, follow it. Returns the gradient.
template <typename Change> Tensor follow_moments(Change& change, double beta2, bool decoupled) {
  Tensor g = change.gradient;
  if (change.weight_decay != 0) {
    if (decoupled) {
      change.value = change.value * (1 - change.lr * change.weight_decay);
    } else {
      g = g + change.value * change.weight_decay;
    }
  }
  change.state[0] = lerp(change.state[0], g, 1 - change.momentum);
  change.state[1] = change.state[1] * beta2 + g * (1 - beta2) * g;
  return g;
}

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
