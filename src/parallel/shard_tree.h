// The order in which what shards gave is added: a binary tree over their numbers. A rank has a range of them and adds the
// aligned subtrees in it; what is left to add is the same for any number of ranks.
#pragma once

#include <vector>

#include <lockstep/data/loader.h>
#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace dist {

inline constexpr int kMostShards = 1 << 16;  ///< of a batch

/// The shards of a rank: contiguous, none empty while there are as many shards as ranks.
data::ShardRange shards_of(int shards, int ranks, int rank);

/// Of a batch of so many: as in data::ShardRange, the first examples % shards have one more.
std::int64_t examples_of(int shards, std::int64_t shard, std::int64_t examples);

/// Shards first ... first + count - 1, count a power of two that divides first.
struct Subtree {
  std::int64_t first = 0;
  std::int64_t count = 1;
};
/// The largest subtrees in a range, in order.
std::vector<Subtree> subtrees_of(const data::ShardRange& range);

/// Sums of subtrees that come in order. Holds at most log2(shards) + 1 of them.
class ShardTree {
 public:
  struct Node {
    Subtree subtree;
    Tensor sum;
  };
  /// Adds siblings as soon as both are there.
  void add(Node node);
  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  std::vector<Node> nodes_;
};

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
