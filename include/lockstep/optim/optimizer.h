// What all optimisers share: groups of parameters, steps, and a state that can be saved.
//
//   ls::optim::AdamW optimizer(net.parameters(), {.lr = 1e-3});
//   optimizer.step(ls::cross_entropy(net.forward(x), y));
//
// A step over all parameters is one kernel, not one per tensor: parameters of one dtype, device and group are moved
// side by side into one tensor, of which each becomes a view.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/nn/module.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

/// Parameters with values of their own for some options; absent ones are the optimiser's.
struct ParameterGroup {
  std::vector<nn::Parameter> parameters;
  std::optional<double> lr = std::nullopt;
  std::optional<double> weight_decay = std::nullopt;
};

/// What an optimiser is made from: net.parameters(), or {{.parameters = a}, {.parameters = b, .lr = 1e-4}}.
class ParameterGroups {
 public:
  ParameterGroups(std::vector<nn::Parameter> parameters) : groups_{ParameterGroup{std::move(parameters)}} {}
  ParameterGroups(std::vector<ParameterGroup> groups) : groups_(std::move(groups)) {}
  ParameterGroups(std::initializer_list<ParameterGroup> groups) : groups_(groups) {}
  std::vector<ParameterGroup>& list() { return groups_; }

 private:
  std::vector<ParameterGroup> groups_;
};

/// Parameters without a gradient are left alone, state and all. Not copyable: several would share the parameters (which
/// is allowed, but should be seen).  PyTorch: torch.optim.Optimizer.
class LOCKSTEP_API Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Changes the parameters by their gradients, which stay, and computes everything pending on their devices.
  /// ValueError if no parameter has a gradient.
  void step(CallSite site = {});
  /// A whole step: clears the gradients, computes those of `loss`, step(), and clears them again.
  void step(const Tensor& loss, CallSite site = {});
  /// step() with every gradient multiplied by `factor` in the update's own precision: undoes a scaled loss.
  void step_scaled(double factor, CallSite site = {});
  /// Clears the gradients of all parameters.
  void zero_grad();

  /// The learning rate of a group. IndexError if there is none of that number.
  double lr(std::size_t group = 0, CallSite site = {}) const;
  /// For all groups, or one. ValueError unless finite and not negative.
  void set_lr(double lr, CallSite site = {});
  void set_lr(std::size_t group, double lr, CallSite site = {});
  /// Momentum, or beta1 of optimisers that have betas; 0 if there is none. One-cycle schedules change it.
  double momentum(std::size_t group = 0, CallSite site = {}) const;
  /// ValueError unless 0 <= momentum < 1, or if the optimiser has none.
  void set_momentum(std::size_t group, double momentum, CallSite site = {});

  std::size_t group_count() const;
  /// Of all groups.
  const std::vector<nn::Parameter>& parameters() const;

  /// Everything that a step reads beside parameters and gradients: "group.0.lr" and "group.0.momentum" (f64 []), and
  /// for every parameter that was stepped "state.<name>.step" (i64 []) and its moments, e.g. "state.<name>.exp_avg". A
  /// name that occurs again gets "#1", "#2", ... appended.
  virtual nn::StateDict state_dict() const;
  /// All or nothing. Throws one error that lists every missing, unexpected, misshaped and mistyped key: ShapeError if
  /// only shapes are wrong, DTypeError if only dtypes are, else ValueError.
  virtual void load_state_dict(const nn::StateDict& state, CallSite site = {});

 protected:
  /// What the options of all optimisers have.
  struct Common {
    double lr = 0;
    double weight_decay = 0;
    std::optional<double> momentum = std::nullopt;
    bool maximize = false;
    bool master_weights = false;
  };
  /// A tensor of a parameter's state before its first step.
  struct State {
    std::string name;
    double initial = 0;
    std::optional<Shape> shape = std::nullopt;  ///< absent: the parameter's
  };
  /// One update. Tensors are f32 (f64 for f64 parameters), all parameters of a group in one dimension where
  /// is_elementwise(), else of one parameter.
  struct Change {
    double lr = 0;
    double weight_decay = 0;
    double momentum = 0;
    std::int64_t step = 0;  ///< 1 for the first
    Tensor gradient;
    Tensor value;               ///< becomes the new one
    std::vector<Tensor> state;  ///< in the order of states(); become the new ones
  };

  /// ValueError for an empty list, an undefined or repeated parameter, or options out of range; `name` is the
  /// optimiser's, for errors.
  Optimizer(const char* name, ParameterGroups groups, const Common& common, CallSite site);

  virtual std::vector<State> states(const Shape& parameter) const = 0;
  virtual void update(Change& change) const = 0;
  /// Whether elements are changed independently of each other.
  virtual bool is_elementwise() const { return true; }
  /// Parameters whose numbers of steps map to the same value are changed together.
  virtual std::int64_t phase(std::int64_t step) const { return step; }

 private:
  struct Impl;
  friend struct OptimizerAccess;
  std::unique_ptr<Impl> impl_;
};

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
