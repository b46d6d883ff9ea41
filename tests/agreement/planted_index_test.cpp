// A bit that makes an index leave its dimension, and is right when the library computes the index again to name it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include <lockstep/lockstep.h>

#include "agreement/planted_bit.h"

namespace lockstep {
inline namespace v0 {
namespace {

TEST(PlantedIndex, IsAnErrorAndTheDeviceGoesOn) {
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 3}, {3});
  const Tensor steps = Tensor::from(std::vector<std::int64_t>{0, 1}, {2});
  const auto selected = [&] { return index_select(x, 0, cumsum(steps, 0)); };
  {
    const test::PlantedBit plant(Device{}, 0, 1, 40);
    try {
      selected().to_vector<float>();
      FAIL();
    } catch (const BackendError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("a kernel met an index outside a dimension of size 3"));
      EXPECT_THAT(error.what(), ::testing::HasSubstr("planted_index_test.cpp"));
    }
  }
  EXPECT_EQ(selected().to_vector<float>(), (std::vector<float>{1, 2}));
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
