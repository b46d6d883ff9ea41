// L-BFGS: steps along directions that a history of gradients makes of the inverse Hessian. For smooth losses of whole
// data sets: it evaluates the loss several times a step.
//
//   ls::optim::LBFGS optimizer(net.parameters(), {.line_search = ls::optim::LBFGSOptions::LineSearch::strong_wolfe});
//   for (...) optimizer.step([&] { return ls::mse_loss(net.forward(x), y); });
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <lockstep/optim/optimizer.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

struct LBFGSOptions {
  enum class LineSearch : std::uint8_t { none, strong_wolfe };
  double lr = 1;
  std::int64_t max_iter = 20;                           ///< directions a step
  std::optional<std::int64_t> max_eval = std::nullopt;  ///< of the loss a step; absent: max_iter * 5 / 4
  double tolerance_grad = 1e-7;                         ///< ends a step where no gradient is larger
  double tolerance_change = 1e-9;                       ///< ends a step where values and loss change by less
  std::int64_t history_size = 100;                      ///< pairs of vectors as long as all parameters
  LineSearch line_search = LineSearch::none;            ///< none: lr times the direction
  bool maximize = false;
};

/// State: the last direction, gradient and length, and the history; a step after load_state_dict has the same bits.
/// Sums are those of `sum` over all parameters as one vector, lengths are f64 on the host.  Nocedal and Wright (2006),
/// chapter 7; PyTorch: torch.optim.LBFGS.
class LOCKSTEP_API LBFGS : public Optimizer {
 public:
  /// The loss with today's parameters, a scalar. A step computes its gradients, unless the closure has called
  /// backward() itself, as PyTorch's do; what gradients there were is cleared first.
  using Closure = std::function<Tensor()>;

  /// ValueError for several groups or options out of range; DTypeError or DeviceError unless all parameters are f32, or
  /// all f64, on one device.
  explicit LBFGS(ParameterGroups parameters, LBFGSOptions options = {}, CallSite site = {});

  /// Returns the loss before the step. The other forms of step() do not have the loss again and throw ValueError.
  Tensor step(const Closure& closure, CallSite site = {});
  /// Directions and evaluations of the loss in all steps so far.
  std::int64_t iterations() const { return iterations_; }
  std::int64_t evaluations() const { return evaluations_; }

  /// Beside Optimizer's: "lbfgs.iterations" and "lbfgs.evaluations" (i64 []), and after a step "lbfgs.length" (f64 []),
  /// "lbfgs.direction" and "lbfgs.gradient" [n], "lbfgs.steps" and "lbfgs.changes" [history, n].
  nn::StateDict state_dict() const override;
  void load_state_dict(const nn::StateDict& state, CallSite site = {}) override;

 protected:
  std::vector<State> states(const Shape&) const override { return {}; }
  void update(Change& change) const override;

 private:
  /// A pair of the history: how the parameters were changed, and the gradient by it.
  struct Pair {
    Tensor step, change;
    Tensor inverse;  ///< 1 / (step . change)
  };
  /// A point along a direction.
  struct Point {
    double length = 0;
    double loss = 0;
    Tensor gradient;
    double slope = 0;
  };

  Tensor values() const;
  void set_values(const Tensor& flat);
  Tensor evaluate(const Closure& closure, Tensor& gradient);
  double directed(const Tensor& loss) const;
  void remember(const Tensor& gradient);
  Tensor new_direction(const Tensor& gradient) const;
  Point probe(const Closure& closure, const Tensor& from, double length);
  Point search(const Closure& closure, const Tensor& from, const Point& start, double length, std::int64_t most);
  Point zoom(const Closure& closure, const Tensor& from, const Point& start, std::vector<Point> bracket,
             std::int64_t left);

  LBFGSOptions options_;
  std::int64_t iterations_ = 0;
  std::int64_t evaluations_ = 0;
  double length_ = 0;
  Tensor direction_, gradient_;
  std::vector<Pair> history_;
};

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
