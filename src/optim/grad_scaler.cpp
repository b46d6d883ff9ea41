#include <lockstep/optim/grad_scaler.h>

#include <cmath>

#include <lockstep/autograd.h>
#include <lockstep/check.h>
#include <lockstep/ops.h>

#include "optim/state_reader.h"
#include "optim/together.h"

namespace lockstep {
inline namespace v0 {
namespace optim {

namespace {


}  // namespace

GradScaler::GradScaler(GradScalerOptions options, CallSite site) : options_(options), scale_(options.init_scale) {
  const CallScope call("GradScaler", site);
  check<ValueError>(std::isfinite(options.init_scale) && options.init_scale > 0, "init_scale must be positive");
  check<ValueError>(options.growth_factor > 1, "growth_factor must be above 1");
  check<ValueError>(options.backoff_factor > 0 && options.backoff_factor < 1, "backoff_factor must be in (0, 1)");
  check<ValueError>(options.growth_interval > 0, "growth_interval must be positive");
}

Tensor GradScaler::scale(const Tensor& loss, CallSite site) const {
  const CallScope call("scale", site);
  check_defined({{"loss", loss}});
  if (!options_.enabled) return loss;
  // An f16 loss times the scale would be infinite itself.
  const Tensor wide = loss.dtype() == DType::f16 ? loss.to(DType::f32) : loss;
  return mul(wide, scale_);
}

bool GradScaler::look(Optimizer& optimizer, double factor) const {
  const NoGrad scope;
  std::vector<nn::Parameter> parameters = with_gradients(optimizer.parameters());
  std::vector<Tensor> finite;
  for (const Pack& pack : pack_kinds(gradients_of(parameters), Layout::Gaps::zero)) {
    finite.push_back(all(isfinite(pack.flat)));
    // Side by side they stay, so that the optimiser need not move them again.
    set_gradients(parameters, pack, factor == 1 ? pack.flat : pack.flat * factor);
  }
  bool result = true;
  for (const Tensor& part : finite) result = part.item<bool>() && result;
  return result;
}

void GradScaler::unscale(Optimizer& optimizer, CallSite site) {
  const CallScope call("unscale", site);
  if (!options_.enabled) return;
  const Seen before = seen_[&optimizer];
  check<ValueError>(!before.unscaled && !before.stepped, "the gradients were unscaled already, or the step is done", {},
                    "call it once, between backward() and step(), and update() at the end");
  for (const nn::Parameter& parameter : optimizer.parameters()) {
    if (!parameter.grad().defined() || parameter.grad().dtype() != DType::f16) continue;
    fail<DTypeError>("f16 gradients would lose what scaling saved", {{"gradient", parameter.grad()}},
                     "clip with max_norm * scaler.scale() and leave unscaling to scaler.step()");
  }
  const bool finite = look(optimizer, 1 / scale_);
  seen_[&optimizer] = {.unscaled = true, .finite = finite};
}

bool GradScaler::step(Optimizer& optimizer, CallSite site) {
  const CallScope call("step", site);
  if (!options_.enabled) {
    optimizer.step();
    return true;
  }
  Seen seen = seen_[&optimizer];
  check<ValueError>(!seen.stepped, "the optimiser was stepped already", {}, "call update() after each step");
  if (!seen.unscaled) seen.finite = look(optimizer, 1);
  if (seen.finite) optimizer.step_scaled(seen.unscaled ? 1 : 1 / scale_);
  seen.stepped = true;
  seen_[&optimizer] = seen;
  return seen.finite;
}

void GradScaler::update(CallSite site) {
  const CallScope call("update", site);
  if (!options_.enabled) return;
  bool any = false;
  bool finite = true;
  for (const auto& [optimizer, seen] : seen_) {
    any = any || seen.stepped || seen.unscaled;
    finite = finite && seen.finite;
  }
  check<ValueError>(any, "no optimiser was stepped since the last update", {}, "call step(optimizer) before");
  seen_.clear();
  adapt(finite);
}

void GradScaler::adapt(bool finite) {
  if (!finite) {
    scale_ *= options_.backoff_factor;
    growth_tracker_ = 0;
  } else if (++growth_tracker_ == options_.growth_interval) {
    // Losses are scaled in f32.
    const double grown = scale_ * options_.growth_factor;
    if (std::isfinite(static_cast<float>(grown))) scale_ = grown;
    growth_tracker_ = 0;
  }
}

bool GradScaler::step(Optimizer& optimizer, const Tensor& loss, CallSite site) {
  const CallScope call("step", site);
  optimizer.zero_grad();
  backward(scale(loss), {});
  const bool stepped = step(optimizer);
  update();
  optimizer.zero_grad();
  return stepped;
}

nn::StateDict GradScaler::state_dict() const {
  nn::StateDict result;
  result.push_back("scale", saved_number(scale_));
  result.push_back("growth_tracker", saved_count(growth_tracker_));
  return result;
}

void GradScaler::load_state_dict(const nn::StateDict& state, CallSite site) {
  const CallScope call("load_state_dict", site);
  StateReader reader("GradScaler", state);
  const double scale = reader.number("scale");
  const std::int64_t tracker = reader.count("growth_tracker");
  reader.finish();
  check<ValueError>(std::isfinite(scale) && scale > 0, "the scale must be positive");
  scale_ = scale;
  growth_tracker_ = tracker;
}

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
