// That the fake library runs a kernel at all, and leaves nothing behind.
#include "metal_emulator/metal_client.h"

#include <gtest/gtest.h>

namespace emulator_test {
namespace {

TEST(MetalClient, RunsAKernel) {
  const Metal metal;
  const std::vector<float> values = metal.values<float>(kernel_filling("float", "out[i] = float(i) * 2.0f;"), 100);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], 2.0f * static_cast<float>(i));
}

TEST(MetalClient, LeavesNothingBehind) {
  const long before = live_objects();
  {
    const Metal metal;
    metal.values<float>(kernel_filling("float", "out[i] = 1.0f;"), 4);
  }
  EXPECT_EQ(live_objects(), before);
}

}  // namespace
}  // namespace emulator_test
