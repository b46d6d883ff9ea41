// L-BFGS: steps, directions and the state. The order of its decisions is torch.optim.LBFGS's; lengths, losses and
// slopes are numbers of the host, everything as long as the parameters stays on their device.
#include <lockstep/optim/lbfgs.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include <lockstep/autograd.h>
#include <lockstep/check.h>
#include <lockstep/ops.h>

#include "optim/state_reader.h"

namespace lockstep {
inline namespace v0 {
namespace optim {
namespace {

constexpr std::string_view kPrefix = "lbfgs.";

Tensor dot(const Tensor& a, const Tensor& b) {
  return sum(a * b);
}
double largest(const Tensor& a) {
  return amax(abs(a)).item<double>();
}

std::int64_t length_of(const std::vector<nn::Parameter>& parameters) {
  std::int64_t length = 0;
  for (const nn::Parameter& parameter : parameters) length += parameter.numel();
  return length;
}

}  // namespace

LBFGS::LBFGS(ParameterGroups groups, LBFGSOptions options, CallSite site)
    : Optimizer("LBFGS", std::move(groups), {.lr = options.lr, .maximize = options.maximize}, site), options_(options) {
  const CallScope call("LBFGS", site);
  check<ValueError>(group_count() == 1, "L-BFGS has one group: a direction is of all parameters together");
  check<ValueError>(options.max_iter >= 1, "max_iter must be 1 or more");
  check<ValueError>(options.max_eval.value_or(1) >= 1, "max_eval must be 1 or more");
  check<ValueError>(options.history_size >= 1, "history_size must be 1 or more");
  check<ValueError>(options.tolerance_grad >= 0 && options.tolerance_change >= 0, "tolerances must not be negative");
  const nn::Parameter& first = parameters()[0];
  for (const nn::Parameter& parameter : parameters()) {
    const bool wide = parameter.dtype() == DType::f32 || parameter.dtype() == DType::f64;
    if (!wide || parameter.dtype() != first.dtype()) {
      fail<DTypeError>("parameters are all f32 or all f64", {{"parameter", parameter.tensor()}},
                       "Module::to(dtype) before the optimiser is made");
    }
    if (parameter.device() != first.device()) {
      fail<DeviceError>("parameters are on different devices",
                        {{"first", first.tensor()}, {"parameter", parameter.tensor()}},
                        "Module::to(device) before the optimiser is made");
    }
  }
  if (!options_.max_eval) options_.max_eval = options.max_iter * 5 / 4;
}

void LBFGS::update(Change&) const {
  fail<ValueError>("L-BFGS evaluates the loss several times a step", {},
                   "step([&] { return loss; }) of the LBFGS itself");
}

// --- parameters as one vector -------------------------------------------------------------------------------------

Tensor LBFGS::values() const {
  std::vector<Tensor> parts;
  for (const nn::Parameter& parameter : parameters()) parts.push_back(detach(parameter).flatten());
  return cat(parts, 0);
}

void LBFGS::set_values(const Tensor& flat) {
  std::int64_t at = 0;
  for (nn::Parameter parameter : parameters()) {
    parameter.set(flat.narrow(0, at, parameter.numel()).reshape(parameter.shape()));
    at += parameter.numel();
  }
}

// The loss, and its gradients as one vector: zeros for parameters that it does not depend on.
Tensor LBFGS::evaluate(const Closure& closure, Tensor& gradient) {
  ++evaluations_;
  zero_grad();
  const Tensor loss = closure();
  check_defined({{"loss", loss}});
  check<ShapeError>(loss.numel() == 1, "the closure returns the loss, a scalar", {{"loss", loss}});
  const auto has_gradient = [](const nn::Parameter& parameter) { return parameter.grad().defined(); };
  if (std::none_of(parameters().begin(), parameters().end(), has_gradient)) backward(loss);
  std::vector<Tensor> parts;
  for (const nn::Parameter& parameter : parameters()) {
    parts.push_back(has_gradient(parameter) ? detach(parameter.grad()).flatten()
                                            : zeros_like(detach(parameter)).flatten());
  }
  zero_grad();
  gradient = cat(parts, 0);
  if (options_.maximize) gradient = -gradient;
  gradient.eval();
  return detach(loss);
}

// What is made smaller.
double LBFGS::directed(const Tensor& loss) const {
  return options_.maximize ? -loss.item<double>() : loss.item<double>();
}

// --- a step -------------------------------------------------------------------------------------------------------

void LBFGS::remember(const Tensor& gradient) {
  const Tensor change = gradient - gradient_;
  const Tensor step = direction_ * length_;
  const Tensor product = dot(change, step);
  if (!(product.item<double>() > 1e-10)) return;
  if (static_cast<std::int64_t>(history_.size()) == options_.history_size) history_.erase(history_.begin());
  history_.push_back({step, change, 1 / product});
}

Tensor LBFGS::new_direction(const Tensor& gradient) const {
  Tensor q = -gradient;
  if (history_.empty()) return q;
  std::vector<Tensor> shares(history_.size());
  for (std::size_t i = history_.size(); i-- > 0;) {
    shares[i] = dot(history_[i].step, q) * history_[i].inverse;
    q = q - history_[i].change * shares[i];
  }
  const Pair& last = history_.back();
  q = q * (dot(last.change, last.step) / dot(last.change, last.change));
  for (std::size_t i = 0; i < history_.size(); ++i) {
    const Tensor share = dot(history_[i].change, q) * history_[i].inverse;
    q = q + history_[i].step * (shares[i] - share);
  }
  return q;
}

Tensor LBFGS::step(const Closure& closure, CallSite site) {
  const CallScope call("step", site);
  check<ValueError>(static_cast<bool>(closure), "there is no closure");
  const std::int64_t evaluated_before = evaluations_;
  const auto evaluated = [&] { return evaluations_ - evaluated_before; };
  Tensor gradient;
  const Tensor first_loss = evaluate(closure, gradient);
  double loss = directed(first_loss);
  if (largest(gradient) <= options_.tolerance_grad) return first_loss;

  for (std::int64_t iteration = 1; iteration <= options_.max_iter; ++iteration) {
    ++iterations_;
    const bool is_first = !gradient_.defined();
    if (!is_first) remember(gradient);
    direction_ = new_direction(gradient);
    gradient_ = gradient;
    const double loss_before = loss;
    length_ = is_first ? std::min(1.0, 1.0 / sum(abs(gradient)).item<double>()) * lr() : lr();
    const double slope = dot(gradient, direction_).item<double>();
    if (slope > -options_.tolerance_change) break;

    const Tensor from = values();
    if (options_.line_search == LBFGSOptions::LineSearch::strong_wolfe) {
      const Point found = search(closure, from, {0, loss, gradient, slope}, length_, *options_.max_eval - evaluated());
      loss = found.loss;
      gradient = found.gradient;
      length_ = found.length;
      set_values(from + direction_ * length_);
    } else {
      set_values(from + direction_ * length_);
      if (iteration < options_.max_iter) {
        loss = directed(evaluate(closure, gradient));
      }
    }
    if (iteration == options_.max_iter || evaluated() >= *options_.max_eval) break;
    if (largest(gradient) <= options_.tolerance_grad) break;
    if (largest(direction_ * length_) <= options_.tolerance_change) break;
    if (std::abs(loss - loss_before) < options_.tolerance_change) break;
  }
  for (const nn::Parameter& parameter : parameters()) detach(parameter).eval();
  return first_loss;
}

// --- state --------------------------------------------------------------------------------------------------------

nn::StateDict LBFGS::state_dict() const {
  nn::StateDict result = Optimizer::state_dict();
  result.push_back("lbfgs.iterations", saved_count(iterations_));
  result.push_back("lbfgs.evaluations", saved_count(evaluations_));
  if (!gradient_.defined()) return result;
  result.push_back("lbfgs.length", saved_number(length_));
  result.push_back("lbfgs.direction", direction_);
  result.push_back("lbfgs.gradient", gradient_);
  if (history_.empty()) return result;
  std::vector<Tensor> steps, changes;
  for (const Pair& pair : history_) {
    steps.push_back(pair.step);
    changes.push_back(pair.change);
  }
  result.push_back("lbfgs.steps", stack(steps));
  result.push_back("lbfgs.changes", stack(changes));
  return result;
}

void LBFGS::load_state_dict(const nn::StateDict& state, CallSite site) {
  const CallScope call("load_state_dict", site);
  nn::StateDict common, own;
  for (const auto& [key, value] : state) {
    (std::string_view(key).starts_with(kPrefix) ? own : common).push_back(key, value);
  }
  StateReader reader("LBFGS", own);
  const std::int64_t iterations = reader.count("lbfgs.iterations");
  const std::int64_t evaluations = reader.count("lbfgs.evaluations");
  const DType dtype = parameters()[0].dtype();
  const Device device = parameters()[0].device();
  const Shape flat{length_of(parameters())};
  double length = 0;
  Tensor direction, gradient, steps, changes;
  if (iterations > 0) {
    length = reader.number("lbfgs.length");
    direction = reader.tensor("lbfgs.direction", dtype, flat);
    gradient = reader.tensor("lbfgs.gradient", dtype, flat);
    if (const Tensor* saved = own.find("lbfgs.steps"); saved != nullptr && saved->rank() == 2) {
      const Shape pairs{std::clamp<std::int64_t>(saved->size(0), 1, options_.history_size), flat[0]};
      steps = reader.tensor("lbfgs.steps", dtype, pairs);
      changes = reader.tensor("lbfgs.changes", dtype, pairs);
    }
  }
  reader.finish();
  Optimizer::load_state_dict(common, site);
  iterations_ = iterations;
  evaluations_ = evaluations;
  length_ = length;
  direction_ = iterations > 0 ? direction.to(device) : Tensor();
  gradient_ = iterations > 0 ? gradient.to(device) : Tensor();
  history_.clear();
  if (!steps.defined()) return;
  steps = steps.to(device);
  changes = changes.to(device);
  for (std::int64_t i = 0; i < steps.size(0); ++i) {
    const Tensor step = steps.select(0, i);
    const Tensor change = changes.select(0, i);
    history_.push_back({step, change, 1 / dot(change, step)});
  }
}

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
