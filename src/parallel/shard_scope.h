// What a shard's forward must not get from the rank that computes it: random draws, and the buffers that other shards
// have changed.
#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/data/loader.h>
#include <lockstep/dist.h>
#include <lockstep/nn/module.h>
#include <lockstep/random.h>

#include "graph/node.h"

namespace lockstep {
inline namespace v0 {
namespace dist {

/// Gives the thread's generator to each shard as if it was made for it. A step is one draw.
class ShardGenerators {
 public:
  explicit ShardGenerators(int shards);
  ~ShardGenerators();
  ShardGenerators(const ShardGenerators&) = delete;
  ShardGenerators& operator=(const ShardGenerators&) = delete;
  void begin(std::int64_t shard) const;

 private:
  bool is_one_;
  std::uint64_t seed_;
  std::uint64_t draw_;
};

/// A module's buffers in a step of several shards.
class ShardBuffers {
 public:
  explicit ShardBuffers(const nn::Module& module);

  std::size_t count() const { return buffers_.size(); }
  /// Before a shard's forward, and after it.
  void begin();
  void end(double weight);
  /// What this rank's shards have changed, by buffer.
  const std::vector<bool>& changed() const { return changed_; }
  /// Gives the buffers that any rank's shards have changed their new values.
  void combine(const Group& group, const data::ShardRange& own, const std::vector<bool>& changed);

 private:
  struct Shard {
    double weight;
    std::vector<Tensor> values;
  };
  void combine_floats(const Group& group, const data::ShardRange& own, const std::vector<bool>& chosen);
  void take_from_first(const Group& group, const std::vector<bool>& chosen);

  std::vector<nn::Buffer> buffers_;
  std::vector<Tensor> before_;
  std::vector<graph::NodeRef> nodes_;  ///< at the beginning of the shard
  std::vector<bool> changed_;
  std::vector<Shard> shards_;
};

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
