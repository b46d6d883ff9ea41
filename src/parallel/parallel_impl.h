// What a Parallel remembers, and the parts of its step.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/parallel.h>

#include "parallel/buckets.h"
#include "parallel/flat_sum.h"
#include "parallel/parameter_keeper.h"
#include "parallel/shard_scope.h"

namespace lockstep {
inline namespace v0 {
namespace dist {

struct Parallel::Impl {
  using Measure = std::function<Measured(const data::Batch& shard)>;

  nn::Module& module;
  optim::Optimizer& optimizer;
  Group group;
  ParallelOptions options;
  std::vector<nn::Parameter> parameters;
  std::vector<int> owners;  ///< of each parameter's state; in order of the ranks
  std::int64_t steps = 0;
  Additions additions;  ///< in the last shard
  std::shared_ptr<ParameterKeeper> keeper;  ///< ZeRO 3 of several ranks
  bool is_whole = false;                    ///< and yet all values are here

  data::ShardRange own() const { return shards_of(options.shards, group.size(), group.rank()); }
  bool is_own(std::size_t parameter) const { return options.zero == 0 || owners[parameter] == group.rank(); }
  bool is_divided(std::size_t parameter) const { return keeper != nullptr && keeper->is_divided(parameter); }
  /// Of the module's parameters that the optimiser has; and of those among them whose values only their owners have
  /// now.
  std::map<std::string, int> owners_by_name() const;
  std::map<std::string, int> divided_by_name() const;
  std::vector<Tensor> values() const;

  StepResult step(const data::LocalBatch& batch, const Measure& measure, optim::GradScaler* scaler, CallSite site);

  /// What this rank's shards gave.
  struct Local {
    std::vector<FlatKind> kinds;
    std::vector<Bucket> buckets;
    std::vector<ShardTree> gradients;          ///< by kind, where some parameters have none
    std::unique_ptr<BucketExchange> exchange;  ///< of the two above
    const optim::GradScaler* scaler = nullptr;
    std::vector<bool> present;              ///< by parameter: it has a gradient in any of the shards
    std::vector<std::vector<Tensor>> held;  ///< by shard with examples: loss and sums
  };
  void compute(const data::LocalBatch& batch, const Measure& measure, ShardBuffers& buffers, Local& local,
               CallSite site);
  /// Runs `work`, this rank's i-th shard, if that has examples: with the other ranks' i-th where parameters are
  /// divided.
  void pass(std::int64_t i, std::int64_t examples, const std::function<void()>& work) const;
  void measure_shard(const Measured& measured, double weight, Local& local, std::int64_t shard, std::int64_t examples,
                     CallSite site);
  /// Makes all ranks know what any of them has: gradients, changed buffers, how many sums. Returns their number.
  std::size_t agree(Local& local, std::vector<bool>& changed) const;
  /// Of each kind the part of the sums that this rank needs.
  std::vector<Tensor> sums_of(Local& local) const;
  /// Leaves out parameters that have no gradient on any rank.
  void keep_present(Local& local) const;
  /// What each rank adds up.
  std::vector<Slices> slices_of(const std::vector<FlatKind>& kinds) const;
  /// Whether the optimiser has stepped.
  bool update(Local& local, optim::GradScaler* scaler, CallSite site);
  bool is_finite_everywhere(bool here) const;
  StepResult total(const Local& local, std::size_t sums, std::int64_t examples) const;
  bool has_examples(std::int64_t shard, std::int64_t examples) const;
  double weight_of(std::int64_t shard, std::int64_t examples) const;

  /// Where the parameters of each rank lie in a kind's flat tensor.
  Cuts owner_cuts(const FlatKind& kind) const;
  /// The norm of the gradients, of which each rank has a part of every kind that begins and ends with chunks.
  Tensor norm_of(const std::vector<FlatKind>& kinds, const std::vector<Tensor>& parts) const;
  /// Gives every rank the values that the owners of parameters have changed.
  void share_values(const Local& local);
};

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
