// Training by a group of processes to the very weights that one process gives.
//
//   const ls::dist::Group group = ls::dist::init();
//   ls::manual_seed(1);                        // the same on every rank
//   Net net;
//   ls::optim::AdamW optimizer(net.parameters(), {.lr = 1e-3});
//   ls::dist::Parallel parallel(net, optimizer, group, {.shards = 8});
//   for (const ls::data::LocalBatch& batch : parallel.batches(loader)) {
//     parallel.step(batch, [&](const ls::data::Batch& shard) {
//       return ls::cross_entropy(net.forward(shard.input), shard.target);
//     });
//   }
//
// A batch is cut into shards, whose number belongs to the run as its seed does. A rank computes the gradients of a range
// of them, and all are added as a binary tree over the shards, whoever has computed them: docs/distributed.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/data/local_batches.h>
#include <lockstep/dist.h>
#include <lockstep/nn/module.h>
#include <lockstep/optim/grad_scaler.h>
#include <lockstep/optim/optimizer.h>

namespace lockstep {
inline namespace v0 {
namespace dist {

struct ParallelOptions {
  /// Parts of a batch, a power of two; weights depend on it. 1 gives the bits of a training without a Parallel.
  int shards = 8;
  /// 0: every rank has the whole state of the optimiser. 1: each parameter's state is with one rank, which changes it
  /// and gives its value to the others. 3: so is its value, which comes when an op reads it, and goes. The same bits.
  /// (ZeRO, Rajbhandari et al. 2020.)
  int zero = 0;
  /// Bounds the norm of all gradients together, as optim::clip_grad_norm does.
  std::optional<double> clip_norm = std::nullopt;
  /// Gradients are given to the others while those of other parameters are computed, in buckets of so many bytes; 0:
  /// after all are there. Each bucket cuts the backward pass, which costs more than it hides where links are fast;
  /// where they are slow, the last bucket is waited for. No result depends on it.
  std::int64_t bucket_bytes = 128 << 20;
  /// ZeRO 3: parameters that lie side by side in the optimiser come together, up to so many bytes; up to three such
  /// units are on a rank. No result depends on it.
  std::int64_t gather_bytes = 16 << 20;
  /// ZeRO 3: parameters of at most so many bytes stay on every rank. Those alone may be used by some shards only. No
  /// result depends on it.
  std::int64_t whole_bytes = 64 << 10;
  /// Steps between two comparisons of all ranks' weights, by hash; 0: never.
  std::int64_t compare_every = 100;
};

/// What a shard of a batch is worth.
struct Measured {
  Measured(Tensor mean_loss, std::vector<Tensor> to_add = {})
      : loss(std::move(mean_loss)), sums(std::move(to_add)) {}
  Tensor loss;               ///< the mean over its examples, a scalar that depends on the parameters
  std::vector<Tensor> sums;  ///< scalars to be added up over all shards, as many in every shard: correct answers
};

/// What a step measured of the whole batch, the same on every rank.
struct StepResult {
  double loss = 0;  ///< the mean over its examples
  std::vector<double> sums;
  bool stepped = true;  ///< false where a GradScaler found a gradient that is not finite: no weight has changed
};

/// Every member is to be called by all ranks alike, and throws what the group throws. Gradients are added in the
/// parameters' own dtype. Buffers that a shard's forward changes (running statistics) start from the same values in all
/// shards; floats become the mean over the shards, weighted by examples, others those of the first shard. Random draws of
/// a shard depend on the thread's generator and the shard's number.
class LOCKSTEP_API Parallel {
 public:
  /// `module` and `optimizer`, of its parameters, must outlive it; devices may differ between ranks. ValueError if ranks
  /// have been given other options, weights or seeds, for shards that are no power of two from the number of ranks to
  /// 65,536, or options out of range.
  Parallel(nn::Module& module, optim::Optimizer& optimizer, Group group, const ParallelOptions& options = {},
           CallSite site = {});
  ~Parallel();
  Parallel(const Parallel&) = delete;
  Parallel& operator=(const Parallel&) = delete;

  const Group& group() const;
  const ParallelOptions& options() const;
  /// Of every batch those that this rank computes.
  data::ShardRange own_shards() const;
  /// A loop over the rest of the loader's epoch.
  data::LocalBatches batches(data::DataLoader& loader) const { return data::LocalBatches(loader, own_shards()); }

  /// A step of the optimiser by the gradients of the mean loss. `measure` is called for each of the rank's own shards that
  /// has examples. ValueError if there are none in the whole batch; DistributedError names the rank whose weights differ
  /// from the others' where they were compared. After one of an exchange the weights here may be those of half a step:
  /// go on from the last checkpoint.
  StepResult step(const data::LocalBatch& batch, const std::function<Measured(const data::Batch& shard)>& measure,
                  CallSite site = {});
  /// The same with a batch that every rank has whole: input and target are cut along their first dimension.
  StepResult step(const data::Batch& batch, const std::function<Measured(const data::Batch& shard)>& measure,
                  CallSite site = {});

  /// A step whose losses are scaled; ranks' scalers have one state. clip_norm bounds the norm without the scale.
  StepResult step(const data::LocalBatch& batch, const std::function<Measured(const data::Batch& shard)>& measure,
                  optim::GradScaler& scaler, CallSite site = {});

  /// ZeRO 3: runs `work`, which reads parameters, on the ranks that are `here`, in one order; every rank calls it. Else
  /// just runs it. To read a parameter of another rank outside of this and step() is a ValueError.
  void together(bool here, const std::function<void()>& work, CallSite site = {});
  /// ZeRO 3: gives every rank all values, until the next step; before a Parallel goes whose module is still needed.
  void make_whole(CallSite site = {});

  /// The module's whole state, on rank 0 (what other ranks own is on the CPU); nothing on the others.
  nn::StateDict module_state(CallSite site = {}) const;
  /// Of a whole state, on every rank, what belongs to it; as Module::load_state_dict.
  void load_module_state(const nn::StateDict& state, CallSite site = {});
  /// What this rank is to save, so that all ranks save everything once: of the module, and of the optimiser.
  nn::StateDict own_module_state(CallSite site = {}) const;
  nn::StateDict own_optimizer_state(CallSite site = {}) const;
  /// The optimiser's whole state, on rank 0; nothing on the others. The same for any number of ranks.
  nn::StateDict optimizer_state(CallSite site = {}) const;
  /// Of a whole state, on every rank, what belongs to it.
  void load_optimizer_state(const nn::StateDict& state, CallSite site = {});

  /// Whether any rank says so.
  bool any(bool here, CallSite site = {}) const;
  /// ValueError unless all ranks give the same number; `what` is a noun: "the seed".
  void check_same(const std::string& what, std::uint64_t number, CallSite site = {}) const;
  /// Compares all ranks' weights now, but those that lie with one rank. DistributedError names the rank that differs
  /// from most.
  void compare(CallSite site = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
