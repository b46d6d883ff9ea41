// Tensors of one dtype and device side by side in a flat one, which ranks add up together: each adds one slice.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <lockstep/dist.h>

#include "optim/arena.h"
#include "parallel/shard_tree.h"

namespace lockstep {
inline namespace v0 {
namespace dist {

/// Which tensors of a list, and where they lie.
struct FlatKind {
  std::vector<std::size_t> members;
  optim::Layout layout;
  DType dtype = DType::f32;
  Device device;

  Tensor zeros() const;
};
/// Of tensors with these values, those that are `wanted`.
std::vector<FlatKind> flat_kinds(const std::vector<Tensor>& tensors, const std::vector<bool>& wanted);

/// A part of a flat tensor for each rank: elements begins[r] ... begins[r + 1] - 1.
using Cuts = std::vector<std::int64_t>;
Cuts equal_cuts(std::int64_t size, int ranks);

/// Something that was started: waits for it.
using Later = std::function<Tensor()>;

/// The part of the sum over all shards that is elements first[rank] ... end[rank] - 1. `tree` holds what this rank's
/// own shards gave; parts may overlap.
Tensor sum_of_shards(const Group& group, int shards, const ShardTree& tree, const Cuts& first, const Cuts& end);
/// One flat tensor of all ranks' parts.
Tensor gathered(const Group& group, const Tensor& part, const Cuts& cuts);
/// The same beside what this thread does meanwhile.
Later start_sum_of_shards(const Group& group, int shards, const ShardTree& tree, const Cuts& first, const Cuts& end);
Later start_gathered(const Group& group, const Tensor& part, const Cuts& cuts);

/// The sums of squares of a flat tensor's chunks (docs/numerics.md section 4), f32 (f64) [chunks]. `part`: from a
/// chunk's beginning to the end of another one, or of the tensor.
Tensor squares_of_chunks(const Tensor& part);
inline constexpr std::int64_t kChunk = 4096;
constexpr std::int64_t floor_chunk(std::int64_t element) {
  return element / kChunk * kChunk;
}
constexpr std::int64_t ceil_chunk(std::int64_t element) {
  return floor_chunk(element + kChunk - 1);
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
