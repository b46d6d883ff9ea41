#include <lockstep/optim/nadam.h>

#include <cmath>

#include <lockstep/check.h>
#include <lockstep/ops.h>

#include "kernels/scalar.h"
#include "optim/moments.h"

namespace lockstep {
inline namespace v0 {
namespace optim {
namespace {

// The momentum of a step, which grows towards beta1.
double nesterov_momentum(double beta1, double decay, std::int64_t step) {
  return beta1 * (1 - 0.5 * scalar::ls_pow(0.96, static_cast<double>(step) * decay));
}

// Of all steps up to this one. Below 2^-60 it is nothing beside 1, which it is taken from.
double momentum_product(double beta1, double decay, std::int64_t step) {
  double product = 1;
  for (std::int64_t s = 1; s <= step && product >= 0x1p-60; ++s) product *= nesterov_momentum(beta1, decay, s);
  return product;
}

}  // namespace

NAdam::NAdam(ParameterGroups parameters, NAdamOptions options, CallSite site)
    : Optimizer("NAdam", std::move(parameters),
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .momentum = options.betas[0],
                 .maximize = options.maximize,
                 .master_weights = options.master_weights},
                site),
      options_(options) {
  const CallScope call("NAdam", site);
  check<ValueError>(options.betas[1] >= 0 && options.betas[1] < 1, "betas must be in [0, 1)");
  check<ValueError>(options.eps >= 0, "eps must not be negative");
  check<ValueError>(options.momentum_decay >= 0, "momentum_decay must not be negative");
}

std::vector<Optimizer::State> NAdam::states(const Shape&) const {
  return {{.name = "exp_avg"}, {.name = "exp_avg_sq"}};
}

void NAdam::update(Change& change) const {
  const double beta1 = change.momentum;
  const double beta2 = options_.betas[1];
  const double decay = options_.momentum_decay;
  const double now = nesterov_momentum(beta1, decay, change.step);
  const double next = nesterov_momentum(beta1, decay, change.step + 1);
  const double product = momentum_product(beta1, decay, change.step);
  const double correction2 = 1 - scalar::ls_pow(beta2, static_cast<double>(change.step));

  const Tensor g = follow_moments(change, beta2, options_.decoupled_weight_decay);
  const Tensor& mean = change.state[0];
  const Tensor& square = change.state[1];
  const Tensor denominator = sqrt(square / correction2) + options_.eps;
  change.value = change.value - g * (change.lr * (1 - now) / (1 - product)) / denominator -
                 mean * (change.lr * next / (1 - product * next)) / denominator;
}

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
