#include "parallel/shard_tree.h"

#include <gtest/gtest.h>

#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace {

TEST(ShardTree, EveryRankHasARangeAndAllShardsAreSomebodys) {
  for (const int shards : {1, 2, 8, 64}) {
    for (int ranks = 1; ranks <= shards; ++ranks) {
      std::int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const data::ShardRange range = shards_of(shards, ranks, rank);
        EXPECT_EQ(range.first, next);
        EXPECT_GE(range.count, 1);
        next += range.count;
      }
      EXPECT_EQ(next, shards);
    }
  }
}

TEST(ShardTree, TheSumIsThatOfABinaryTree) {
  // Numbers whose sum depends on the order.
  const std::vector<float> values{1e8f, 1.0f, -1e8f, 1.0f, 3.0f, 1e-3f, 7e7f, -2.5f};
  const auto leaf = [&](std::size_t i) { return Tensor::from(std::vector{values[i]}, {1}); };
  const float expected =
      ((values[0] + values[1]) + (values[2] + values[3])) + ((values[4] + values[5]) + (values[6] + values[7]));
  for (int ranks = 1; ranks <= 8; ++ranks) {
    ShardTree whole;
    for (int rank = 0; rank < ranks; ++rank) {
      const data::ShardRange range = shards_of(8, ranks, rank);
      ShardTree own;
      for (std::int64_t shard = range.first; shard < range.first + range.count; ++shard) {
        own.add({{shard, 1}, leaf(static_cast<std::size_t>(shard))});
      }
      const std::vector<Subtree> subtrees = subtrees_of(range);
      ASSERT_EQ(own.nodes().size(), subtrees.size());
      for (std::size_t i = 0; i < subtrees.size(); ++i) {
        EXPECT_EQ(own.nodes()[i].subtree.first, subtrees[i].first);
        EXPECT_EQ(own.nodes()[i].subtree.count, subtrees[i].count);
        whole.add(own.nodes()[i]);
      }
    }
    ASSERT_EQ(whole.nodes().size(), 1u);
    EXPECT_EQ(whole.nodes()[0].sum.item<float>(), expected) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace dist
}  // namespace v0
}  // namespace lockstep
