#include <lockstep/optim/lion.h>

#include <lockstep/check.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

Lion::Lion(ParameterGroups parameters, LionOptions options, CallSite site)
    : Optimizer("Lion", std::move(parameters),
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .momentum = options.betas[0],
                 .maximize = options.maximize,
                 .master_weights = options.master_weights},
                site),
      options_(options) {
  const CallScope call("Lion", site);
  check<ValueError>(options.betas[1] >= 0 && options.betas[1] < 1, "betas must be in [0, 1)");
}

std::vector<Optimizer::State> Lion::states(const Shape&) const {
  return {{.name = "exp_avg"}};
}

void Lion::update(Change& change) const {
  const double beta2 = options_.betas[1];
  const Tensor& g = change.gradient;
  Tensor& mean = change.state[0];
  const Tensor direction = sign(mean * change.momentum + g * (1 - change.momentum));
  mean = mean * beta2 + g * (1 - beta2);
  if (change.weight_decay != 0) change.value = change.value * (1 - change.lr * change.weight_decay);
  change.value = change.value - direction * change.lr;
}

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
