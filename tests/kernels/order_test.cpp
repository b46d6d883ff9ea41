// The canonical orders have the numbers of kernels/order.h on the reference, which has its own, and on the CPU. Seen
// from outside: beside 2^24, an f32 loses a 1 that is added to it, but not a sum of several.
#include "kernels/order.h"

#include <gtest/gtest.h>

#include <lockstep/ops.h>

#include "backends/reference/reduce.h"

namespace lockstep {
namespace {

constexpr float kBig = 0x1p24f;

static_assert(reference::kChunk == order::kChunk);
static_assert(reference::kLanes == order::kLanes);

// kBig, then n - 1 ones.
Tensor ones_beside_big(int n, Device device) {
  std::vector<float> values(static_cast<std::size_t>(n), 1.0f);
  values[0] = kBig;
  return Tensor::from(values, {n}, device);
}

class Order : public testing::TestWithParam<DeviceKind> {
 protected:
  Device device() const { return {GetParam(), 0}; }

  // How many of n elements share their chain with the first.
  int beside_the_first(int n) const {
    return n - static_cast<int>(sum(ones_beside_big(n, device())).item<float>() - kBig);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Order, testing::Values(DeviceKind::ref, DeviceKind::cpu), [](const auto& tested) {
  return std::string(Device{tested.param, 0}.to_string());
});

TEST_P(Order, LanesOfReductions) {
  EXPECT_EQ(beside_the_first(order::kChunk / 2), order::kChunk / 2 / order::kLanes);
  EXPECT_EQ(beside_the_first(order::kChunk), order::kChunk / order::kLanes);
}

TEST_P(Order, ChunksOfReductions) {
  EXPECT_EQ(beside_the_first(2 * order::kChunk), order::kChunk / order::kLanes);
}

TEST_P(Order, BlocksOfContractions) {
  constexpr int kRest = 44;
  constexpr int kSize = order::kBlock + kRest;
  const Tensor product = dot(ones_beside_big(kSize, device()), ones({kSize}, {.device = device()}));
  EXPECT_EQ(product.item<float>() - kBig, kRest);
}

// The first element whose running sum shows more than kBig.
int first_above(const std::vector<float>& sums) {
  int i = 0;
  while (sums[static_cast<std::size_t>(i)] <= kBig) ++i;
  return i;
}

TEST_P(Order, LanesOfScans) {
  // The second lane adds the sum of its own elements, of which there have to be two.
  const std::vector<float> sums = cumsum(ones_beside_big(4 * order::kScanLane, device()), 0).to_vector<float>();
  EXPECT_EQ(first_above(sums), order::kScanLane + 1);
}

TEST_P(Order, ChunksOfScans) {
  // With a 1 for each lane, the lanes of the first chunk add them one by one and lose them; those of the second chunk
  // add up before they meet what stands before their chunk.
  std::vector<float> values(std::size_t{2} * order::kChunk, 0.0f);
  for (std::size_t i = 0; i < values.size(); i += order::kScanLane) values[i] = 1;
  values[0] = kBig;
  const int size = 2 * order::kChunk;
  const std::vector<float> sums = cumsum(Tensor::from(values, {size}, device()), 0).to_vector<float>();
  EXPECT_EQ(first_above(sums), order::kChunk + 2 * order::kScanLane);
}

}  // namespace
}  // namespace lockstep
