#include <gtest/gtest.h>

#include <algorithm>

#include <lockstep/device.h>

#include "backends/backend.h"
#include "support/data.h"

namespace lockstep {
inline namespace v0 {
namespace {

// A GPU in software is slower than the CPU that it runs on.
TEST(Devices, BestIsNeverOneInSoftware) {
  const std::vector<Device> all = Device::all();
  const bool software = std::any_of(all.begin(), all.end(), is_software);
  if (!software && !test::must_have_data()) GTEST_SKIP() << "needs a GPU in software: mesa-vulkan-drivers";
  EXPECT_TRUE(software) << "mesa-vulkan-drivers has one";
  EXPECT_FALSE(is_software(Device::best())) << Device::best().to_string();
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
