#include <lockstep/optim/adafactor.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <lockstep/check.h>
#include <lockstep/ops.h>

#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {
namespace optim {
namespace {

Tensor root_mean_square(const Tensor& a) {
  return sqrt(mean(square(a)));
}

}  // namespace

Adafactor::Adafactor(ParameterGroups parameters, AdafactorOptions options, CallSite site)
    : Optimizer("Adafactor", std::move(parameters),
                {.lr = options.lr,
                 .weight_decay = options.weight_decay,
                 .maximize = options.maximize,
                 .master_weights = options.master_weights},
                site),
      options_(options) {
  const CallScope call("Adafactor", site);
  check<ValueError>(options.beta2_decay <= 0, "beta2_decay must not be positive");
  check<ValueError>(options.eps1.value_or(0) >= 0 && options.eps2 >= 0, "eps1 and eps2 must not be negative");
  check<ValueError>(options.d >= 1, "d must be at least 1");
}

std::vector<Optimizer::State> Adafactor::states(const Shape& parameter) const {
  if (parameter.rank() < 2) return {{.name = "variance"}};
  Shape row = parameter;
  Shape column = parameter;
  row[parameter.rank() - 1] = 1;
  column[parameter.rank() - 2] = 1;
  return {{.name = "row_var", .shape = row}, {.name = "col_var", .shape = column}};
}

void Adafactor::update(Change& change) const {
  const Tensor& g = change.gradient;
  const double eps1 = options_.eps1.value_or(g.dtype() == DType::f64 ? std::numeric_limits<double>::epsilon()
                                                                     : std::numeric_limits<float>::epsilon());
  const auto step = static_cast<double>(change.step);
  const double weight = scalar::ls_pow(step, options_.beta2_decay);
  const double rate = std::min(change.lr, 1 / std::sqrt(step));
  const Tensor scale = maximum(root_mean_square(change.value), options_.eps2) * rate;
  if (change.weight_decay != 0) change.value = change.value * (1 - change.lr * change.weight_decay);

  Tensor variance;
  if (g.rank() > 1) {
    Tensor& row = change.state[0];
    Tensor& column = change.state[1];
    const Tensor squares = square(g);
    row = lerp(row, mean(squares, {-1}, true), weight);
    column = lerp(column, mean(squares, {-2}, true), weight);
    variance = row * column / maximum(mean(row, {-2}, true), eps1);
  } else {
    variance = change.state[0] = lerp(change.state[0], square(g), weight);
  }
  const Tensor direction = rsqrt(maximum(variance, eps1 * eps1)) * g;
  const Tensor size = maximum(root_mean_square(direction) / options_.d, 1.0);
  change.value = change.value - direction * (scale / size);
}

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
