#include <lockstep/optim/grad_scaler.h>

#include <cmath>

#include <lockstep/autograd.h>
#include <lockstep/ops.h>

#include "graph/check.h"
#include "optim/state_reader.h"
#include "optim/together.h"

namespace lockstep {
inline namespace v0 {
namespace optim {

namespace {

void check(bool holds, const char* op, const char* what, const char* fix, CallSite site) {
  if (!holds) graph::fail<ValueError>(op, what, {}, fix, site);
}

}  // namespace

GradScaler::GradScaler(GradScalerOptions options, CallSite site) : options_(options), scale_(options.init_scale) {
  check(std::isfinite(options.init_scale) && options.init_scale > 0, "GradScaler", "init_scale must be positive", "",
        site);
  check(options.growth_factor > 1, "GradScaler", "growth_factor must be above 1", "", site);
  check(options.backoff_factor > 0 && options.backoff_factor < 1, "GradScaler", "backoff_factor must be in (0, 1)", "",
        site);
  check(options.growth_interval > 0, "GradScaler", "growth_interval must be positive", "", site);
}

Tensor GradScaler::scale(const Tensor& loss, CallSite site) const {
  graph::check_defined("scale", {{"loss", loss}}, site);
  if (!options_.enabled) return loss;
  // An f16 loss times the scale would be infinite itself.
  const Tensor wide = loss.dtype() == DType::f16 ? loss.to(DType::f32, site) : loss;
  return mul(Operand(wide, site), scale_);
}

bool GradScaler::look(Optimizer& optimizer, double factor, CallSite site) const {
  const NoGrad scope;
  std::vector<nn::Parameter> parameters = with_gradients(optimizer.parameters());
  std::vector<Tensor> finite;
  for (const Pack& pack : pack_kinds(gradients_of(parameters), Layout::Gaps::zero, site)) {
    finite.push_back(all(isfinite(pack.flat)));
    // Side by side they stay, so that the optimiser need not move them again.
    set_gradients(parameters, pack, factor == 1 ? pack.flat : pack.flat * factor, site);
  }
  bool result = true;
  for (const Tensor& part : finite) result = part.item<bool>(site) && result;
  return result;
}

void GradScaler::unscale(Optimizer& optimizer, CallSite site) {
  if (!options_.enabled) return;
  const Seen before = seen_[&optimizer];
  check(!before.unscaled && !before.stepped, "unscale", "the gradients were unscaled already, or the step is done",
        "call it once, between backward() and step(), and update() at the end", site);
  for (const nn::Parameter& parameter : optimizer.parameters()) {
    if (!parameter.grad().defined() || parameter.grad().dtype() != DType::f16) continue;
    graph::fail<DTypeError>("unscale", "f16 gradients would lose what scaling saved", {{"gradient", parameter.grad()}},
                            "clip with max_norm * scaler.scale() and leave unscaling to scaler.step()", site);
  }
  const bool finite = look(optimizer, 1 / scale_, site);
  seen_[&optimizer] = {.unscaled = true, .finite = finite};
}

bool GradScaler::step(Optimizer& optimizer, CallSite site) {
  if (!options_.enabled) {
    optimizer.step(site);
    return true;
  }
  Seen seen = seen_[&optimizer];
  check(!seen.stepped, "step", "the optimiser was stepped already", "call update() after each step", site);
  if (!seen.unscaled) seen.finite = look(optimizer, 1, site);
  if (seen.finite) optimizer.step_scaled(seen.unscaled ? 1 : 1 / scale_, site);
  seen.stepped = true;
  seen_[&optimizer] = seen;
  return seen.finite;
}

void GradScaler::update(CallSite site) {
  if (!options_.enabled) return;
  bool any = false;
  bool finite = true;
  for (const auto& [optimizer, seen] : seen_) {
    any = any || seen.stepped || seen.unscaled;
    finite = finite && seen.finite;
  }
  check(any, "update", "no optimiser was stepped since the last update", "call step(optimizer) before", site);
  seen_.clear();
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
  optimizer.zero_grad();
  backward(scale(loss, site), {}, site);
  const bool stepped = step(optimizer, site);
  update(site);
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
  StateReader reader("GradScaler", state, site);
  const double scale = reader.number("scale");
  const std::int64_t tracker = reader.count("growth_tracker");
  reader.finish();
  check(std::isfinite(scale) && scale > 0, "load_state_dict", "the scale must be positive", "", site);
  scale_ = scale;
  growth_tracker_ = tracker;
}

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
