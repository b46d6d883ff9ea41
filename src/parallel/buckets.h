// Gradients on their way to the other ranks while those of other parameters are computed. Parameters are cut into
// buckets, the last ones first, as a backward pass reaches them; the exchange of a bucket begins when the last of this
// rank's shards has given all of its gradients. Every rank begins the same exchanges in the same order, and what is
// added in which order does not depend on buckets.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <lockstep/nn/module.h>

#include "graph/leaf_watch.h"
#include "parallel/flat_sum.h"

namespace lockstep {
inline namespace v0 {
namespace dist {

/// Members first ... end - 1 of a kind, and what this rank's shards gave of them.
struct Bucket {
  std::size_t kind = 0;
  std::size_t first = 0;
  std::size_t end = 0;
  std::int64_t begin = 0;  ///< of its elements in the kind's flat tensor
  optim::Layout layout;
  ShardTree tree;
};

/// Of every kind, those with the last parameters first; `bytes` 0: one of each kind.
std::vector<Bucket> buckets_of(const std::vector<FlatKind>& kinds, std::int64_t bytes);

/// The elements of a kind's flat tensor that each rank adds up: first[r] ... end[r] - 1.
struct Slices {
  Cuts first;
  Cuts end;
  bool are_gathered = false;  ///< and gives to all the others; equal parts of each bucket, whatever first and end say
};

/// How often backward() adds to each parameter's gradient: more than once where parts of the graph are differentiated
/// by themselves (checkpoint). Learnt from the shard before.
using Additions = std::map<const Tensor*, int>;

/// The exchange of all buckets in one step. Gradients go when their exchange has begun, and without `keeps_trees` what
/// was added up of them.
class BucketExchange {
 public:
  BucketExchange(const Group& group, int shards, const std::vector<FlatKind>& kinds, std::vector<Bucket>& buckets,
                 std::vector<Slices> slices, bool keeps_trees, const std::vector<nn::Parameter>& parameters);

  /// What backward() of the rank's last shard is to tell; `expected` as learnt, none if nothing was. Adds the gradients
  /// of `shard` to the buckets' trees, and begins their exchange. ValueError where a gradient is added to afterwards.
  graph::LeafWatch watch(std::int64_t shard, const Additions& expected);
  /// Adds those of a shard to the bucket.
  void add(Bucket& bucket, std::int64_t shard) const;
  /// Begins the exchanges that have not begun.
  void begin_all(std::int64_t shard);
  /// Of each kind this rank's slice of the sums, or all of them where they are gathered.
  std::vector<Tensor> take();

 private:
  void begin(std::int64_t shard);
  void sum_up(std::size_t bucket);
  /// A bucket's slices, in its own elements.
  void slices_of(const Bucket& bucket, Cuts& first, Cuts& end) const;
  Tensor joined(std::size_t kind, const std::vector<Tensor>& parts) const;

  const Group& group_;
  int shards_;
  const std::vector<FlatKind>& kinds_;
  std::vector<Bucket>& buckets_;
  std::vector<Slices> slices_;  ///< by kind
  bool keeps_trees_;
  const std::vector<nn::Parameter>& parameters_;
  std::map<const Tensor*, std::size_t> bucket_of_;
  std::map<const Tensor*, int> missing_;
  std::vector<int> incomplete_;  ///< by bucket: gradients that are not there yet
  std::size_t begun_ = 0;
  std::size_t summed_ = 0;
  std::vector<Later> sums_;
  std::vector<Later> results_;
};

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
