// Training of a model too large for one rank's memory, cut into stages: a rank has some of the layers, gets what the
// layers before them gave, and gives the next rank what they give. To the very weights that one process gives.
//
//   const ls::dist::Group group = ls::dist::init();
//   ls::manual_seed(1);                        // the same on every rank
//   ls::nn::Sequential net = ...;
//   ls::dist::Pipeline pipeline(net, group, {.shards = 8});
//   ls::optim::AdamW optimizer(pipeline.parameters(), {.lr = 1e-3});
//   for (const ls::data::LocalBatch& batch : pipeline.batches(loader)) {
//     pipeline.step(optimizer, batch, [](const auto& output, const auto& target) { return ls::cross_entropy(output,
//     target); });
//   }
//
// The micro-batches are the shards of lockstep/parallel.h: forward one after the other, so that ranks work on different
// ones at a time, then backward one after the other (GPipe, Huang et al. 2019). docs/distributed.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <lockstep/data/local_batches.h>
#include <lockstep/dist.h>
#include <lockstep/nn/sequential.h>
#include <lockstep/optim/grad_scaler.h>
#include <lockstep/optim/optimizer.h>

namespace lockstep {
inline namespace v0 {
namespace dist {

struct PipelineOptions {
  /// Parts of a batch, a power of two from 2; weights depend on it, as on ParallelOptions::shards. The more there are
  /// for each rank, the less ranks wait for the first and the last one.
  int shards = 8;
  /// How many layers each rank has; empty: so many that parameters are divided about equally.
  std::vector<std::int64_t> layers = {};
  /// Bounds the norm of all stages' gradients together, as optim::clip_grad_norm does.
  std::optional<double> clip_norm = std::nullopt;
};

/// Every member is to be called by all ranks alike, and throws what the group throws.
class LOCKSTEP_API Pipeline {
 public:
  /// The mean loss of a micro-batch, a scalar, by what the last layer gives.
  using Loss = std::function<Tensor(const Tensor& output, const Tensor& target)>;

  /// `module` must outlive it. Parameters of other ranks' layers go: to read one is a ValueError. ValueError if ranks
  /// have other weights, seeds or options, there are fewer layers than ranks, a rank has no parameters to train, or
  /// options are out of range.
  Pipeline(nn::Sequential& module, Group group, const PipelineOptions& options = {}, CallSite site = {});
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// Of this rank's layers, those that are trained, for its optimiser. Values and devices may change; but not whether
  /// they are trained.
  std::vector<nn::Parameter> parameters() const;
  /// A loop over the rest of the loader's epoch. The first rank reads inputs and the last one targets.
  data::LocalBatches batches(data::DataLoader& loader) const;

  /// A step of the optimiser by the gradients of the mean loss, which every rank gets. `loss` is called by the last one
  /// for each shard that has examples. Buffers and random draws are those of Parallel::step. ValueError for a batch
  /// without examples, and where what a stage gives has no gradient; DTypeError where it is no float tensor.
  double step(optim::Optimizer& optimizer, const data::LocalBatch& batch, const Loss& loss, CallSite site = {});

  /// A step whose losses are scaled; ranks' scalers have one state. clip_norm bounds the norm without the scale. No
  /// weight changes where a gradient is not finite on any rank.
  double step(optim::Optimizer& optimizer, const data::LocalBatch& batch, const Loss& loss, optim::GradScaler& scaler,
              CallSite site = {});

  /// Gives every rank all values, until the next step: to export them, or to test.
  void make_whole(CallSite site = {});

  /// What this rank is to save, so that all ranks save everything once (train::save_checkpoint with the group): of the
  /// module, and of the optimiser of parameters(). The whole is what a Parallel saves for the same module and an
  /// optimiser of all its parameters, so either goes on from the other's checkpoints. ValueError for an optimiser of
  /// other parameters, or of several groups.
  nn::StateDict own_module_state(CallSite site = {}) const;
  nn::StateDict own_optimizer_state(const optim::Optimizer& optimizer, CallSite site = {}) const;
  /// Of a whole state, on every rank, what belongs to it. ValueError and ShapeError as Module::load_state_dict and
  /// Optimizer::load_state_dict.
  void load_module_state(const nn::StateDict& state, CallSite site = {});
  void load_optimizer_state(optim::Optimizer& optimizer, const nn::StateDict& state, CallSite site = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
