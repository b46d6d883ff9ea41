#include <lockstep/optim/radam.h>

#include <cmath>

#include <lockstep/check.h>
#include <lockstep/ops.h>

#include "kernels/scalar.h"
#include "optim/moments.h"

namespace lockstep {
inline namespace v0 {
namespace optim {

RAdam::RAdam(ParameterGroups parameters, RAdamOptions options, CallSite site)
    : Optimizer("RAdam", std::move(parameters),
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .momentum = options.betas[0],
                 .maximize = options.maximize,
                 .master_weights = options.master_weights},
                site),
      options_(options) {
  const CallScope call("RAdam", site);
  check<ValueError>(options.betas[1] >= 0 && options.betas[1] < 1, "betas must be in [0, 1)");
  check<ValueError>(options.eps >= 0, "eps must not be negative");
}

std::vector<Optimizer::State> RAdam::states(const Shape&) const {
  return {{.name = "exp_avg"}, {.name = "exp_avg_sq"}};
}

void RAdam::update(Change& change) const {
  const double beta1 = change.momentum;
  const double beta2 = options_.betas[1];
  const auto step = static_cast<double>(change.step);
  const double power2 = scalar::ls_pow(beta2, step);
  const double correction1 = 1 - scalar::ls_pow(beta1, step);
  const double correction2 = 1 - power2;

  follow_moments(change, beta2, options_.decoupled_weight_decay);
  const Tensor& mean = change.state[0];
  const Tensor& square = change.state[1];
  // The length of the simple moving average that the second moment is like; its variance is known from 5 on.
  const double limit = 2 / (1 - beta2) - 1;
  const double length = limit - 2 * step * power2 / correction2;
  const Tensor move = mean * (change.lr / correction1);
  if (length > 5) {
    const double rectified =
        std::sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)) * std::sqrt(correction2);
    change.value = change.value - move * rectified / (sqrt(square) + options_.eps);
  } else {
    change.value = change.value - move;
  }
}

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
