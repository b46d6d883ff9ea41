#include <lockstep/optim/sgd.h>

#include <algorithm>

#include <lockstep/check.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

SGD::SGD(ParameterGroups parameters, SGDOptions options, CallSite site)
    : Optimizer("SGD", std::move(parameters),
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .momentum = options.momentum,
                 .maximize = options.maximize,
                 .master_weights = options.master_weights},
                site),
      options_(options) {
  const CallScope call("SGD", site);
  check<ValueError>(!options.nesterov || (options.momentum > 0 && options.dampening == 0),
                    "nesterov needs momentum and no dampening");
}

std::vector<Optimizer::State> SGD::states(const Shape&) const {
  if (options_.momentum == 0) return {};
  return {{.name = "momentum_buffer"}};
}

// Only the first step differs from the others.
std::int64_t SGD::phase(std::int64_t step) const {
  return options_.momentum == 0 ? 0 : std::min<std::int64_t>(step, 1);
}

void SGD::update(Change& change) const {
  Tensor g = change.gradient;
  if (change.weight_decay != 0) g = g + change.value * change.weight_decay;
  if (!change.state.empty()) {
    Tensor& buffer = change.state[0];
    buffer = change.step == 1 ? g : buffer * change.momentum + g * (1 - options_.dampening);
    g = options_.nesterov ? g + buffer * change.momentum : buffer;
  }
  change.value = change.value - g * change.lr;
}

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
