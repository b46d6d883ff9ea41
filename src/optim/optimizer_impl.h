// What an optimiser remembers: groups, parameters, and their state, which lies in flat tensors while the same
// parameters are changed together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/optim/optimizer.h>

#include "optim/arena.h"

namespace lockstep {
inline namespace v0 {
namespace optim {

struct Optimizer::Impl {
  struct Group {
    double lr = 0;
    double weight_decay = 0;
    double momentum = 0;
  };
  /// A parameter with what is known of it between steps.
  struct Trained {
    nn::Parameter parameter;
    std::size_t group = 0;
    std::string key;  ///< in a state dict
    std::int64_t step = 0;
    std::vector<Tensor> state;  ///< empty before the first step, and while a batch has it
  };
  /// Parameters that are changed together. Several lie side by side in an arena, and so does their state.
  struct Batch {
    std::vector<std::size_t> members;
    DType dtype = DType::f32;
    Device device;
    Arena arena;
    std::vector<Tensor> state;
    bool is_flat() const { return members.size() > 1; }
  };
  using Members = std::vector<std::size_t>;

  const char* name = "";
  Common common;
  std::vector<Group> groups;
  std::vector<nn::Parameter> parameters;
  std::vector<Trained> trained;
  std::vector<Batch> batches;

  /// ValueError if no parameter has a gradient.
  void apply(const Optimizer& optimizer, double factor);
  /// Computes what is pending on the parameters' devices.
  void flush() const;

  /// The parameters with gradients; those that can be changed together in one list.
  std::vector<Members> active(const Optimizer& optimizer) const;
  /// Makes a batch of each list.
  void arrange(const std::vector<Members>& lists, const Optimizer& optimizer);
  Batch batch(const Members& members, const Optimizer& optimizer) const;
  /// Gives every parameter its state back.
  void take_apart();
  void change(Batch& batch, const Optimizer& optimizer, double factor);

  /// Those of the optimiser, and the master weights last.
  std::vector<State> states(const Optimizer& optimizer, const nn::Parameter& parameter) const;
  bool has_master(DType dtype) const;
  DType state_dtype(DType dtype) const;
  /// IndexError if there is no such group.
  Group& group(std::size_t number);
};

/// What an optimiser of these parameters, in this order, calls them in its state dict: names, numbered from the second
/// of a name on.
std::vector<std::string> keys_of(const std::vector<nn::Parameter>& parameters);
/// What the names of a parameter's state begin with.
std::string state_prefix(const std::string& key);

struct OptimizerAccess {
  /// Those of an optimiser's parameters, in their order.
  static std::vector<std::string> state_prefixes(const Optimizer& optimizer);
};

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
