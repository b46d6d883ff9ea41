// The caching allocator of GPUs, on a device that is not there.
#include "backends/gpu/memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "support/fake_driver.h"

namespace lockstep {
namespace {

constexpr std::size_t kMegabyte = std::size_t{1} << 20;

/// Counts what the driver is asked for: a release waits for the GPU.
class CountingDriver : public test::FakeDriver {
 public:
  CountingDriver() : FakeDriver(device()) {}
  int calls = 0;

  std::uint64_t allocate(std::size_t bytes) override {
    ++calls;
    return FakeDriver::allocate(bytes);
  }
  void release(std::uint64_t address) override {
    ++calls;
    FakeDriver::release(address);
  }

 private:
  static std::shared_ptr<test::FakeDevice> device() {
    auto device = std::make_shared<test::FakeDevice>();
    device->memory_limit = std::size_t{8} << 30;
    return device;
  }
};

// As the forward and the backward half of a training step, whose sizes differ.
TEST(GpuMemory, AStepThatRepeatsNeedsNothingFromTheDriver) {
  CountingDriver driver;
  gpu::Memory memory(driver);
  const auto halves = [&] {
    for (const std::size_t bytes : {100 * kMegabyte, 75 * kMegabyte}) {
      std::vector<std::uint64_t> blocks;
      for (int i = 0; i < 4; ++i) blocks.push_back(memory.allocate(bytes));
      for (const std::uint64_t block : blocks) memory.release(block, bytes);
    }
  };
  halves();
  driver.calls = 0;
  halves();
  EXPECT_EQ(driver.calls, 0);
}

TEST(GpuMemory, WhatIsCachedIsBounded) {
  CountingDriver driver;
  gpu::Memory memory(driver);
  for (std::size_t bytes = 400 * kMegabyte; bytes >= 100 * kMegabyte; bytes -= 25 * kMegabyte) {
    memory.release(memory.allocate(bytes), bytes);
    EXPECT_LE(memory.statistics().cached, 2 * memory.statistics().peak);
  }
}

}  // namespace
}  // namespace lockstep
