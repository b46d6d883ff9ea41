#include <lockstep/optim/plateau.h>

#include <algorithm>
#include <limits>

#include <lockstep/check.h>

#include "optim/state_reader.h"

namespace lockstep {
inline namespace v0 {
namespace optim {

using Mode = PlateauOptions::Mode;
using ThresholdMode = PlateauOptions::ThresholdMode;

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, PlateauOptions options, CallSite site)
    : optimizer_(optimizer),
      options_(options),
      best_(options.mode == Mode::min ? std::numeric_limits<double>::infinity()
                                      : -std::numeric_limits<double>::infinity()) {
  const CallScope call("ReduceLROnPlateau", site);
  if (!(options.factor >= 0 && options.factor < 1)) {
    fail<ValueError>("factor must be in [0, 1)");
  }
  if (!(options.patience >= 0 && options.cooldown >= 0 && options.threshold >= 0 && options.min_lr >= 0 &&
        options.eps >= 0)) {
    fail<ValueError>("patience, cooldown, threshold, min_lr and eps must not be negative");
  }
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const bool relative = options_.threshold_mode == ThresholdMode::rel;
  const double sign = options_.mode == Mode::min ? -1 : 1;
  const double wanted = relative ? best_ * (1 + sign * options_.threshold) : best_ + sign * options_.threshold;
  return options_.mode == Mode::min ? metric < wanted : metric > wanted;
}

void ReduceLROnPlateau::step(double metric) {
  if (is_better(metric)) {
    best_ = metric;
    bad_ = 0;
  } else {
    ++bad_;
  }
  if (cooldown_ > 0) {
    --cooldown_;
    bad_ = 0;
  }
  if (bad_ <= options_.patience) return;
  bad_ = 0;
  cooldown_ = options_.cooldown;
  for (std::size_t g = 0; g < optimizer_.group_count(); ++g) {
    const double before = optimizer_.lr(g);
    const double after = std::max(before * options_.factor, options_.min_lr);
    if (before - after > options_.eps) optimizer_.set_lr(g, after);
  }
}

nn::StateDict ReduceLROnPlateau::state_dict() const {
  nn::StateDict result;
  result.push_back("best", saved_number(best_));
  result.push_back("bad", saved_count(bad_));
  result.push_back("cooldown", saved_count(cooldown_));
  return result;
}

void ReduceLROnPlateau::load_state_dict(const nn::StateDict& state, CallSite site) {
  const CallScope call("load_state_dict", site);
  StateReader reader("ReduceLROnPlateau", state);
  const double best = reader.number("best");
  const std::int64_t bad = reader.count("bad");
  const std::int64_t cooldown = reader.count("cooldown");
  reader.finish();
  best_ = best;
  bad_ = bad;
  cooldown_ = cooldown;
}

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
