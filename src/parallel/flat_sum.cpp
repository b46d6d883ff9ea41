#include "parallel/flat_sum.h"

#include <algorithm>
#include <utility>

#include <lockstep/ops.h>

#include "dist/group.h"
#include "graph/make.h"
#include "optim/together.h"

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace {

// Slices are cut between cache lines of any dtype.
constexpr std::int64_t kAlignment = 64;

std::vector<Shape> shapes_of(const Cuts& cuts) {
  std::vector<Shape> shapes;
  for (std::size_t r = 0; r + 1 < cuts.size(); ++r) shapes.push_back({cuts[r + 1] - cuts[r]});
  return shapes;
}

}  // namespace

Tensor FlatKind::zeros() const {
  return lockstep::zeros({layout.size()}, {.dtype = dtype, .device = device});
}

std::vector<FlatKind> flat_kinds(const std::vector<Tensor>& tensors, const std::vector<bool>& wanted) {
  std::vector<Tensor> chosen;
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!wanted[i]) continue;
    chosen.push_back(tensors[i]);
    positions.push_back(i);
  }
  std::vector<FlatKind> kinds;
  for (const std::vector<std::size_t>& list : optim::same_kinds(chosen)) {
    std::vector<std::size_t> members;
    std::vector<Shape> shapes;
    for (const std::size_t i : list) {
      members.push_back(positions[i]);
      shapes.push_back(chosen[i].shape());
    }
    const Tensor& first = chosen[list.front()];
    kinds.push_back({std::move(members), optim::Layout(std::move(shapes)), first.dtype(), first.device()});
  }
  return kinds;
}

Cuts equal_cuts(std::int64_t size, int ranks) {
  const std::int64_t lines = (size + kAlignment - 1) / kAlignment;
  Cuts cuts;
  for (int rank = 0; rank <= ranks; ++rank) cuts.push_back(std::min(size, lines * rank / ranks * kAlignment));
  return cuts;
}

Later start_sum_of_shards(const Group& group, int shards, const ShardTree& tree, const Cuts& first, const Cuts& end) {
  if (group.size() == 1) return [sum = tree.nodes().front().sum] { return sum; };
  const auto own = static_cast<std::size_t>(group.rank());
  std::vector<Tensor> parts;
  std::vector<Shape> shapes;
  for (std::size_t rank = 0; rank < first.size(); ++rank) {
    std::vector<Tensor> sums;
    for (const ShardTree::Node& node : tree.nodes())
      sums.push_back(node.sum.narrow(0, first[rank], end[rank] - first[rank]));
    parts.push_back(stack(sums));
    const std::size_t count = subtrees_of(shards_of(shards, group.size(), static_cast<int>(rank))).size();
    shapes.push_back({static_cast<std::int64_t>(count), end[own] - first[own]});
  }
  return [result = GroupAccess::start_all_to_all(group, parts, shapes), shards, ranks = group.size()] {
    const std::vector<Tensor> all = result();
    ShardTree whole;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      std::int64_t row = 0;
      for (const Subtree& subtree : subtrees_of(shards_of(shards, ranks, static_cast<int>(rank)))) {
        whole.add({subtree, all[rank].select(0, row++)});
      }
    }
    return whole.nodes().front().sum;
  };
}

Tensor sum_of_shards(const Group& group, int shards, const ShardTree& tree, const Cuts& first, const Cuts& end) {
  return start_sum_of_shards(group, shards, tree, first, end)();
}

Later start_gathered(const Group& group, const Tensor& part, const Cuts& cuts) {
  if (group.size() == 1) return [part] { return part; };
  return [result = GroupAccess::start_all_gather(group, part, shapes_of(cuts))] { return cat(result(), 0); };
}

Tensor gathered(const Group& group, const Tensor& part, const Cuts& cuts) {
  return start_gathered(group, part, cuts)();
}

Tensor squares_of_chunks(const Tensor& part) {
  const Tensor wide = part.to(graph::wide(part.dtype()));
  const std::int64_t full = part.numel() / kChunk;
  const std::int64_t rest = part.numel() - full * kChunk;
  const auto squares = [](const Tensor& rows) {
    return graph::reduce(ReduceOp::dot, rows, 1u << 1, &rows).reshape({rows.size(0)});
  };
  std::vector<Tensor> results;
  if (full > 0) results.push_back(squares(wide.narrow(0, 0, full * kChunk).reshape({full, kChunk})));
  if (rest > 0) results.push_back(squares(wide.narrow(0, full * kChunk, rest).reshape({1, rest})));
  if (results.empty()) return wide;
  return results.size() == 1 ? results.front() : cat(results, 0);
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
