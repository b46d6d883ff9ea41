#include "graph/address_index.h"

#include <gtest/gtest.h>

#include <array>

namespace lockstep::graph {
namespace {

TEST(AddressIndex, CountsAnewWhenItWasCleared) {
  const std::array<int, 500> objects{};
  AddressIndex<int> index;
  EXPECT_EQ(index.find(&objects[0]), -1);
  for (const std::size_t used : {500u, 3u, 200u}) {
    for (std::size_t i = used; i-- > 0;) EXPECT_TRUE(index.add(&objects[i]));
    for (std::size_t i = 0; i < used; ++i) {
      EXPECT_FALSE(index.add(&objects[i]));
      EXPECT_EQ(index.find(&objects[i]), static_cast<int>(used - 1 - i));
    }
    EXPECT_EQ(index.size(), used);
    index.clear();
    EXPECT_EQ(index.size(), 0u);
    for (const int& object : objects) EXPECT_EQ(index.find(&object), -1);
  }
}

}  // namespace
}  // namespace lockstep::graph
