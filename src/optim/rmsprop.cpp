#include <lockstep/optim/rmsprop.h>

#include <lockstep/check.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

RMSprop::RMSprop(ParameterGroups parameters, RMSpropOptions options, CallSite site)
    : Optimizer("RMSprop", std::move(parameters),
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .momentum = options.momentum,
                 .maximize = options.maximize,
                 .master_weights = options.master_weights},
                site),
      options_(options) {
  const CallScope call("RMSprop", site);
  check<ValueError>(options.alpha >= 0 && options.alpha <= 1, "alpha must be in [0, 1]");
  check<ValueError>(options.eps >= 0, "eps must not be negative");
}

std::vector<Optimizer::State> RMSprop::states(const Shape&) const {
  std::vector<State> result{{.name = "square_avg"}};
  if (options_.momentum != 0) result.push_back({.name = "momentum_buffer"});
  if (options_.centered) result.push_back({.name = "grad_avg"});
  return result;
}

void RMSprop::update(Change& change) const {
  const double alpha = options_.alpha;
  Tensor g = change.gradient;
  if (change.weight_decay != 0) g = g + change.value * change.weight_decay;
  Tensor& square = change.state[0];
  square = square * alpha + g * (1 - alpha) * g;
  Tensor spread = square;
  if (options_.centered) {
    Tensor& mean = change.state.back();
    mean = lerp(mean, g, 1 - alpha);
    spread = square - mean * mean;
  }
  const Tensor direction = g / (sqrt(spread) + options_.eps);
  if (options_.momentum != 0) {
    Tensor& buffer = change.state[1];
    buffer = buffer * change.momentum + direction;
    change.value = change.value - buffer * change.lr;
  } else {
    change.value = change.value - direction * change.lr;
  }
}

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
