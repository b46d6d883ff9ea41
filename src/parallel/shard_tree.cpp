#include "parallel/shard_tree.h"

#include <utility>

#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace dist {

data::ShardRange shards_of(int shards, int ranks, int rank) {
  const auto begin_of = [&](int r) { return std::int64_t{shards} * r / ranks; };
  return {.of = shards, .first = begin_of(rank), .count = begin_of(rank + 1) - begin_of(rank)};
}

std::int64_t examples_of(int shards, std::int64_t shard, std::int64_t examples) {
  return examples / shards + (shard < examples % shards ? 1 : 0);
}

std::vector<Subtree> subtrees_of(const data::ShardRange& range) {
  std::vector<Subtree> result;
  const std::int64_t end = range.first + range.count;
  for (std::int64_t first = range.first; first < end;) {
    std::int64_t count = 1;
    while (first % (2 * count) == 0 && first + 2 * count <= end) count *= 2;
    result.push_back({first, count});
    first += count;
  }
  return result;
}

void ShardTree::add(Node node) {
  nodes_.push_back(std::move(node));
  while (nodes_.size() >= 2) {
    const Node& right = nodes_.back();
    Node& left = nodes_[nodes_.size() - 2];
    const bool are_siblings =
        left.subtree.count == right.subtree.count && left.subtree.first % (2 * left.subtree.count) == 0;
    if (!are_siblings) return;
    left.sum = left.sum + right.sum;
    left.subtree.count *= 2;
    nodes_.pop_back();
  }
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
