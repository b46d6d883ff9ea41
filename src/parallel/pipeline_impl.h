// What a Pipeline remembers, and the parts of its step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/pipeline.h>

namespace lockstep {
inline namespace v0 {
namespace dist {

struct Pipeline::Impl {
  /// A parameter of the whole module.
  struct Placed {
    nn::Parameter parameter;
    int rank = 0;  ///< that has it
    bool is_trained = false;
  };

  nn::Sequential& module;
  Group group;
  PipelineOptions options;
  std::size_t first = 0;  ///< of this rank's layers
  std::size_t end = 0;
  std::vector<Placed> parameters;
  std::vector<std::pair<nn::Buffer, int>> buffers;  ///< each with the rank that changes it
  std::vector<nn::Parameter> own;                   ///< that are trained
  bool is_whole = true;

  /// Of a shard, between its forward and its backward pass.
  struct MicroBatch {
    Tensor input;
    Tensor output;
  };

  bool is_first() const { return group.rank() == 0; }
  bool is_last() const { return group.rank() + 1 == group.size(); }
  void place();
  void divide();
  double step(optim::Optimizer& optimizer, const data::LocalBatch& batch, const Loss& loss, optim::GradScaler* scaler,
              CallSite site);
  void give(const Tensor& output) const;
  Tensor get(Device device) const;
  MicroBatch forward(const data::Batch& shard, const Loss& loss) const;
  void backward(const MicroBatch& held, double weight, const optim::GradScaler* scaler, CallSite site) const;
  /// Changes this rank's parameters by their gradients; those without one have none on any shard.
  void update(optim::Optimizer& optimizer, optim::GradScaler* scaler, CallSite site) const;
  /// The norm of all ranks' gradients together, as a Parallel of one rank has it.
  Tensor norm() const;
  /// Whether all ranks say so.
  bool all(bool here) const;
  double total(const std::vector<double>& weights, const std::vector<Tensor>& losses) const;

  /// The names of this rank's trained parameters in an optimiser's state, as an optimiser of all of them has them.
  std::vector<std::string> whole_prefixes() const;
  /// Of the module's parameters and buffers.
  std::map<std::string, int> ranks_by_name() const;
};

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
