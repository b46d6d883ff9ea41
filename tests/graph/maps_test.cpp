#include "graph/maps.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Maps, ComposeFollowsBroadcasts) {
  const View inner = View::contiguous({3, 4}).permuted({1, 0});  // [4, 3]
  const View outer = View::contiguous({4, 1}).expanded({4, 5});
  EXPECT_FALSE(graph::compose(outer, inner).has_value());  // 4 steps of 1 are more than a row of 3
  const std::optional<View> rows = graph::compose(View::contiguous({1, 4, 3}).expanded({2, 4, 3}), inner);
  ASSERT_TRUE(rows.has_value());
  EXPECT_EQ(rows->strides, (Shape{0, 1, 4}));
}

TEST(Maps, RowValuesStandStillAlongTheirRows) {
  const View map = graph::row_map({2, 3, 4}, 0b010);
  EXPECT_EQ(map.shape, (Shape{2, 3, 4}));
  EXPECT_EQ(map.strides, (Shape{4, 0, 1}));
  EXPECT_EQ(graph::rows_of({2, 3, 4}, 0b010), 8);
  EXPECT_TRUE(graph::same_positions(map, graph::row_map({2, 3, 4}, 0b010)));
  EXPECT_FALSE(graph::same_positions(map, graph::row_map({2, 3, 4}, 0b100)));
}

}  // namespace
}  // namespace lockstep
