#include <lockstep/memory.h>

#include <gtest/gtest.h>

#include <vector>

#include <lockstep/ops.h>

namespace lockstep {
namespace {

TEST(Memory, CountsComputedTensors) {
  for (const Device device : {Device{DeviceKind::ref, 0}, Device{}}) {
    const std::size_t before = memory_statistics(device).live;
    const Tensor x = (ones({1 << 18}, {.device = device}) * 2.0).eval();
    const MemoryStatistics held = memory_statistics(device);
    EXPECT_GE(held.live, before + (1 << 20)) << device.to_string();
    EXPECT_GE(held.peak, held.live);
  }
}

TEST(Memory, WhatIsFreedIsNoLongerLive) {
  for (const Device device : {Device{DeviceKind::ref, 0}, Device{}}) {
    const std::size_t before = memory_statistics(device).live;
    { const Tensor x = (ones({1 << 18}, {.device = device}) * 2.0).eval(); }
    EXPECT_LE(memory_statistics(device).live, before) << device.to_string();
  }
}

TEST(Memory, BorrowedMemoryDoesNotCount) {
  const std::vector<float> values(1 << 18, 1.0f);
  const std::size_t before = memory_statistics().live;
  const Tensor x = Tensor::from_blob(values.data(), {1 << 18}, DType::f32);
  EXPECT_LE(memory_statistics().live, before);
}

}  // namespace
}  // namespace lockstep
