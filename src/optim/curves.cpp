// The curves of learning-rate schedules, each in closed form.
#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include <lockstep/check.h>
#include <lockstep/optim/schedule.h>

#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {
namespace optim {
namespace {

void check_curve(bool holds, const char* name, const char* what) {
  if (holds) return;
  const CallScope call(name, CallSite("", 0));
  fail<ValueError>(what);
}

double part(std::int64_t step, std::int64_t of) {
  return static_cast<double>(step) / static_cast<double>(of);
}

double cosine(double from, double to, double progress) {
  return to + (from - to) * (1 + scalar::ls_cos(std::numbers::pi * progress)) / 2;
}

double power(double base, std::int64_t exponent) {
  return scalar::ls_pow(base, static_cast<double>(exponent));
}

// The number of milestones that were reached.
std::int64_t passed(const std::vector<std::int64_t>& milestones, std::int64_t step) {
  return std::upper_bound(milestones.begin(), milestones.end(), step) - milestones.begin();
}

}  // namespace

double LambdaLR::operator()(double lr, std::int64_t step) const {
  check_curve(factor != nullptr, "LambdaLR", "there is no function");
  return lr * factor(step);
}

double StepLR::operator()(double lr, std::int64_t step) const {
  check_curve(step_size > 0, "StepLR", "step_size must be positive");
  return lr * power(gamma, step / step_size);
}

double MultiStepLR::operator()(double lr, std::int64_t step) const {
  check_curve(std::is_sorted(milestones.begin(), milestones.end()), "MultiStepLR", "milestones must ascend");
  return lr * power(gamma, passed(milestones, step));
}

double ExponentialLR::operator()(double lr, std::int64_t step) const {
  return lr * power(gamma, step);
}

double ConstantLR::operator()(double lr, std::int64_t step) const {
  check_curve(factor >= 0 && factor <= 1, "ConstantLR", "factor must be in [0, 1]");
  return step < total_iters ? lr * factor : lr;
}

double LinearLR::operator()(double lr, std::int64_t step) const {
  check_curve(start_factor > 0 && start_factor <= 1, "LinearLR", "start_factor must be in (0, 1]");
  check_curve(end_factor >= 0 && end_factor <= 1, "LinearLR", "end_factor must be in [0, 1]");
  check_curve(total_iters > 0, "LinearLR", "total_iters must be positive");
  return lr * (start_factor + (end_factor - start_factor) * part(std::min(step, total_iters), total_iters));
}

double PolynomialLR::operator()(double lr, std::int64_t step) const {
  check_curve(total_iters > 0, "PolynomialLR", "total_iters must be positive");
  return lr * scalar::ls_pow(1 - part(std::min(step, total_iters), total_iters), this->power);
}

double CosineAnnealingLR::operator()(double lr, std::int64_t step) const {
  check_curve(T_max > 0, "CosineAnnealingLR", "T_max must be positive");
  return cosine(lr, eta_min, part(step, T_max));
}

double CosineAnnealingWarmRestarts::operator()(double lr, std::int64_t step) const {
  check_curve(T_0 > 0 && T_mult > 0, "CosineAnnealingWarmRestarts", "T_0 and T_mult must be positive");
  std::int64_t length = T_0;
  if (T_mult == 1) {
    step %= length;
  } else {
    while (step >= length) {
      step -= length;
      length *= T_mult;
    }
  }
  return cosine(lr, eta_min, part(step, length));
}

namespace {

// What a one-cycle schedule goes through: `bottom` to `top`, and back or to `end`.
double one_cycle(const OneCycleLR& cycle, std::int64_t step, double bottom, double top, double end) {
  constexpr const char* kName = "OneCycleLR";
  check_curve(cycle.total_steps > 0, kName, "total_steps must be positive");
  check_curve(cycle.pct_start >= 0 && cycle.pct_start <= 1, kName, "pct_start must be in [0, 1]");
  check_curve(cycle.max_lr > 0 && cycle.div_factor > 0 && cycle.final_div_factor > 0, kName,
              "max_lr, div_factor and final_div_factor must be positive");
  if (step > cycle.total_steps) {
    fail<ValueError>(fmt::format("step {} is beyond the total of {}", step, cycle.total_steps), {},
                     "make the schedule as long as the training");
  }
  const auto total = static_cast<double>(cycle.total_steps);
  const auto now = static_cast<double>(step);
  const auto between = [&](double from, double to, double start, double stop) {
    const double progress = stop > start ? (now - start) / (stop - start) : 1;
    return cycle.anneal == OneCycleLR::Anneal::cos ? cosine(from, to, progress) : from + (to - from) * progress;
  };
  const double peak = cycle.pct_start * total - 1;
  if (now <= peak) return between(bottom, top, 0, peak);
  if (!cycle.three_phase) return between(top, end, peak, total - 1);
  const double down = 2 * cycle.pct_start * total - 2;
  if (now <= down) return between(top, bottom, peak, down);
  return between(bottom, end, down, total - 1);
}

}  // namespace

double OneCycleLR::operator()(double, std::int64_t step) const {
  const double start = max_lr / div_factor;
  return one_cycle(*this, step, start, max_lr, start / final_div_factor);
}

double OneCycleLR::momentum(std::int64_t step) const {
  return one_cycle(*this, step, max_momentum, base_momentum, max_momentum);
}

double SequentialLR::operator()(double lr, std::int64_t step) const {
  check_curve(schedulers.size() == milestones.size() + 1, "SequentialLR",
              "there must be one curve more than milestones");
  check_curve(std::is_sorted(milestones.begin(), milestones.end()), "SequentialLR", "milestones must ascend");
  const auto reached = static_cast<std::size_t>(passed(milestones, step));
  check_curve(schedulers[reached] != nullptr, "SequentialLR", "a curve is empty");
  return schedulers[reached](lr, reached == 0 ? step : step - milestones[reached - 1]);
}

SequentialLR warmup_cosine(std::int64_t warmup_steps, std::int64_t total_steps, double eta_min, double start_factor) {
  check_curve(warmup_steps > 0 && warmup_steps < total_steps, "warmup_cosine",
              "warmup_steps must be positive and smaller than total_steps");
  return {.schedulers = {LinearLR{.start_factor = start_factor, .total_iters = warmup_steps},
                         CosineAnnealingLR{.T_max = total_steps - warmup_steps, .eta_min = eta_min}},
          .milestones = {warmup_steps}};
}

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
