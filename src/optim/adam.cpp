#include <lockstep/optim/adam.h>

#include <cmath>

#include <lockstep/check.h>
#include <lockstep/ops.h>

#include "kernels/scalar.h"
#include "optim/moments.h"

namespace lockstep {
inline namespace v0 {
namespace optim {

Adam::Adam(ParameterGroups parameters, AdamOptions options, CallSite site)
    : Adam("Adam", std::move(parameters), options, false, site) {}

Adam::Adam(const char* name, ParameterGroups parameters, const AdamOptions& options, bool decoupled, CallSite site)
    : Optimizer(name, std::move(parameters),
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .momentum = options.betas[0],
                 .maximize = options.maximize,
                 .master_weights = options.master_weights},
                site),
      options_(options),
      decoupled_(decoupled) {
  const CallScope call(name, site);
  check<ValueError>(options.betas[1] >= 0 && options.betas[1] < 1, "betas must be in [0, 1)");
  check<ValueError>(options.eps >= 0, "eps must not be negative");
}

std::vector<Optimizer::State> Adam::states(const Shape&) const {
  if (options_.amsgrad) return {{.name = "exp_avg"}, {.name = "exp_avg_sq"}, {.name = "max_exp_avg_sq"}};
  return {{.name = "exp_avg"}, {.name = "exp_avg_sq"}};
}

void Adam::update(Change& change) const {
  const double beta1 = change.momentum;
  const double beta2 = options_.betas[1];
  const double correction1 = 1 - scalar::ls_pow(beta1, static_cast<double>(change.step));
  const double correction2 = 1 - scalar::ls_pow(beta2, static_cast<double>(change.step));

  follow_moments(change, beta2, decoupled_);
  const Tensor& mean = change.state[0];
  const Tensor& square = change.state[1];
  Tensor largest = square;
  if (options_.amsgrad) largest = change.state[2] = maximum(change.state[2], square);
  const Tensor denominator = sqrt(largest) / std::sqrt(correction2) + options_.eps;
  change.value = change.value - mean * (change.lr / correction1) / denominator;
}

AdamW::AdamW(ParameterGroups parameters, AdamWOptions options, CallSite site)
    : Adam("AdamW", std::move(parameters),
           {.lr = options.lr,
            .betas = options.betas,
            .eps = options.eps,
            .weight_decay = options.weight_decay,
            .amsgrad = options.amsgrad,
            .maximize = options.maximize,
            .master_weights = options.master_weights},
           true, site) {}

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
