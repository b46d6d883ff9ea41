// Learning rates that change with time.
//
//   ls::optim::Schedule schedule(optimizer, ls::optim::CosineAnnealingLR{.T_max = epochs});
//   for (...) { train(); schedule.step(); }
//
// A curve is a function of the rate to start from and of the number of steps taken (of epochs, usually); the ones here
// have PyTorch's names, options and values, and any other function will do. Curves throw ValueError for options that
// make no sense, when they are first used.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <lockstep/nn/module.h>
#include <lockstep/optim/optimizer.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

/// The rate after `step` steps, of a group whose rate is `lr` at first.
using Curve = std::function<double(double lr, std::int64_t step)>;

/// lr * factor(step).
struct LambdaLR {
  std::function<double(std::int64_t)> factor;
  LOCKSTEP_API double operator()(double lr, std::int64_t step) const;
};
/// Times gamma every step_size steps.
struct StepLR {
  std::int64_t step_size = 1;
  double gamma = 0.1;
  LOCKSTEP_API double operator()(double lr, std::int64_t step) const;
};
/// Times gamma at each milestone.
struct MultiStepLR {
  std::vector<std::int64_t> milestones;  ///< ascending
  double gamma = 0.1;
  LOCKSTEP_API double operator()(double lr, std::int64_t step) const;
};
/// Times gamma every step.
struct ExponentialLR {
  double gamma = 0.95;
  LOCKSTEP_API double operator()(double lr, std::int64_t step) const;
};
/// Times factor for the first total_iters steps.
struct ConstantLR {
  double factor = 1.0 / 3;
  std::int64_t total_iters = 5;
  LOCKSTEP_API double operator()(double lr, std::int64_t step) const;
};
/// Times a factor that goes from start_factor to end_factor in total_iters steps: a warm-up.
struct LinearLR {
  double start_factor = 1.0 / 3;
  double end_factor = 1;
  std::int64_t total_iters = 5;
  LOCKSTEP_API double operator()(double lr, std::int64_t step) const;
};
/// Times (1 - step / total_iters)^power, 0 afterwards.
struct PolynomialLR {
  std::int64_t total_iters = 5;
  double power = 1;
  LOCKSTEP_API double operator()(double lr, std::int64_t step) const;
};
/// From lr to eta_min along half a cosine of T_max steps, and back.
struct CosineAnnealingLR {
  std::int64_t T_max = 0;
  double eta_min = 0;
  LOCKSTEP_API double operator()(double lr, std::int64_t step) const;
};
/// From lr to eta_min in T_0 steps, and again, each time T_mult times as long.
struct CosineAnnealingWarmRestarts {
  std::int64_t T_0 = 0;
  std::int64_t T_mult = 1;
  double eta_min = 0;
  LOCKSTEP_API double operator()(double lr, std::int64_t step) const;
};
/// Up to max_lr and down to nearly nothing, once; the optimiser's own rate does not matter. ValueError beyond
/// total_steps.
struct OneCycleLR {
  double max_lr = 0;
  std::int64_t total_steps = 0;
  double pct_start = 0.3;  ///< the part that goes up
  enum class Anneal : std::uint8_t { cos, linear };
  Anneal anneal = Anneal::cos;
  bool cycle_momentum = true;  ///< momentum (or beta1) moves the other way
  double base_momentum = 0.85;
  double max_momentum = 0.95;
  double div_factor = 25;         ///< starts at max_lr / div_factor
  double final_div_factor = 1e4;  ///< ends at the start / final_div_factor
  bool three_phase = false;       ///< down to the start first, then to the end
  LOCKSTEP_API double operator()(double lr, std::int64_t step) const;
  LOCKSTEP_API double momentum(std::int64_t step) const;
};
/// One curve until the first milestone, the next one from there (starting at its own step 0), and so on.
struct SequentialLR {
  std::vector<Curve> schedulers;
  std::vector<std::int64_t> milestones;  ///< ascending, one fewer than curves
  LOCKSTEP_API double operator()(double lr, std::int64_t step) const;
};
/// A linear warm-up from start_factor * lr, then half a cosine to eta_min at total_steps.
LOCKSTEP_API SequentialLR warmup_cosine(std::int64_t warmup_steps, std::int64_t total_steps, double eta_min = 0,
                                        double start_factor = 0.01);

/// Sets the optimiser's rates at once and after each step. The optimiser must outlive it.  PyTorch: LRScheduler.
class LOCKSTEP_API Schedule {
 public:
  /// One curve for all groups.
  Schedule(Optimizer& optimizer, Curve curve, CallSite site = {});
  /// One curve per group (ValueError for another number).
  Schedule(Optimizer& optimizer, std::vector<Curve> curves, CallSite site = {});
  /// With the momentum that belongs to it. ValueError if the optimiser has none to cycle.
  Schedule(Optimizer& optimizer, const OneCycleLR& cycle, CallSite site = {});

  void step(CallSite site = {});
  std::int64_t steps() const { return step_; }

  /// "step" (i64 []), and "base_lr.<group>" (f64 []): the rates that the curves start from.
  nn::StateDict state_dict() const;
  /// Sets the optimiser's rates, too. Throws what Optimizer::load_state_dict does.
  void load_state_dict(const nn::StateDict& state, CallSite site = {});

 private:
  using Momentum = std::function<double(std::int64_t step)>;
  Schedule(Optimizer& optimizer, std::vector<Curve> curves, Momentum momentum, CallSite site);
  void apply(std::int64_t step, const std::vector<double>& base);

  Optimizer& optimizer_;
  std::vector<Curve> curves_;
  Momentum momentum_;  ///< empty: left alone
  std::vector<double> base_;
  std::int64_t step_ = 0;
};

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
