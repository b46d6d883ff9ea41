#include <lockstep/optim/schedule.h>

#include <utility>

#include <fmt/format.h>

#include <lockstep/check.h>

#include "optim/state_reader.h"

namespace lockstep {
inline namespace v0 {
namespace optim {

Schedule::Schedule(Optimizer& optimizer, Curve curve, CallSite site)
    : Schedule(optimizer, std::vector<Curve>(optimizer.group_count(), std::move(curve)), site) {}

Schedule::Schedule(Optimizer& optimizer, std::vector<Curve> curves, CallSite site)
    : Schedule(optimizer, std::move(curves), nullptr, site) {}

Schedule::Schedule(Optimizer& optimizer, const OneCycleLR& cycle, CallSite site)
    : Schedule(optimizer, std::vector<Curve>(optimizer.group_count(), cycle),
               cycle.cycle_momentum ? [cycle](std::int64_t step) { return cycle.momentum(step); } : Momentum(), site) {}

Schedule::Schedule(Optimizer& optimizer, std::vector<Curve> curves, Momentum momentum, CallSite site)
    : optimizer_(optimizer), curves_(std::move(curves)), momentum_(std::move(momentum)) {
  const CallScope call("Schedule", site);
  if (curves_.size() != optimizer.group_count()) {
    fail<ValueError>(fmt::format("there are {} curves for {} groups", curves_.size(), optimizer.group_count()), {},
                     "give one for all groups, or one for each");
  }
  for (std::size_t g = 0; g < curves_.size(); ++g) {
    if (curves_[g] == nullptr) fail<ValueError>("a curve is empty");
    base_.push_back(optimizer.lr(g));
  }
  apply(0, base_);
}

// Everything is computed before anything is changed.
void Schedule::apply(std::int64_t step, const std::vector<double>& base) {
  std::vector<double> rates;
  for (std::size_t g = 0; g < base.size(); ++g) rates.push_back(curves_[g](base[g], step));
  for (std::size_t g = 0; g < base.size(); ++g) {
    if (momentum_ != nullptr) optimizer_.set_momentum(g, momentum_(step));
    optimizer_.set_lr(g, rates[g]);
  }
}

void Schedule::step(CallSite site) {
  const CallScope call("step", site);
  apply(step_ + 1, base_);
  ++step_;
}

nn::StateDict Schedule::state_dict() const {
  nn::StateDict result;
  result.push_back("step", saved_count(step_));
  for (std::size_t g = 0; g < base_.size(); ++g) result.push_back(fmt::format("base_lr.{}", g), saved_number(base_[g]));
  return result;
}

void Schedule::load_state_dict(const nn::StateDict& state, CallSite site) {
  const CallScope call("load_state_dict", site);
  StateReader reader("Schedule", state);
  const std::int64_t step = reader.count("step");
  std::vector<double> base;
  for (std::size_t g = 0; g < base_.size(); ++g) base.push_back(reader.number(fmt::format("base_lr.{}", g)));
  reader.finish();
  apply(step, base);
  step_ = step;
  base_ = std::move(base);
}

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
