#include <lockstep/optim/adagrad.h>

#include <lockstep/check.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

Adagrad::Adagrad(ParameterGroups parameters, AdagradOptions options, CallSite site)
    : Optimizer("Adagrad", std::move(parameters),
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .maximize = options.maximize,
                 .master_weights = options.master_weights},
                site),
      options_(options) {
  const CallScope call("Adagrad", site);
  check<ValueError>(options.lr_decay >= 0, "lr_decay must not be negative");
  check<ValueError>(options.initial_accumulator_value >= 0, "initial_accumulator_value must not be negative");
  check<ValueError>(options.eps >= 0, "eps must not be negative");
}

std::vector<Optimizer::State> Adagrad::states(const Shape&) const {
  return {{.name = "sum", .initial = options_.initial_accumulator_value}};
}

void Adagrad::update(Change& change) const {
  const double rate = change.lr / (1 + static_cast<double>(change.step - 1) * options_.lr_decay);
  Tensor g = change.gradient;
  if (change.weight_decay != 0) g = g + change.value * change.weight_decay;
  Tensor& sum = change.state[0];
  sum = sum + g * g;
  change.value = change.value - g * rate / (sqrt(sum) + options_.eps);
}

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
