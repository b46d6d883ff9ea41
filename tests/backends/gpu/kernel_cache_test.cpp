// Kernels that are made ready together, with a compiler that a test can break. What is on disk: faults_test.cpp.
#include "backends/gpu/kernel_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/fake_driver.h"
#include "support/files.h"

namespace lockstep {
namespace {

std::vector<gpu::KernelText> texts(int count) {
  std::vector<gpu::KernelText> result(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) result[static_cast<std::size_t>(i)].body = "kernel " + std::to_string(i);
  return result;
}

std::vector<const gpu::KernelText*> pointers(const std::vector<gpu::KernelText>& list) {
  std::vector<const gpu::KernelText*> result;
  for (const gpu::KernelText& text : list) result.push_back(&text);
  return result;
}

class KernelCacheTest : public ::testing::Test {
 protected:
  std::shared_ptr<test::FakeDevice> device_ = std::make_shared<test::FakeDevice>();
  test::FakeDriver driver_{device_};
  gpu::KernelCache cache_{driver_, ""};
};

TEST_F(KernelCacheTest, PreparingInParallelCompilesEachTextOnce) {
  const std::vector<gpu::KernelText> list = texts(100);
  std::vector<const gpu::KernelText*> asked = pointers(list);
  asked.insert(asked.end(), asked.begin(), asked.end());
  cache_.prepare(asked, {});
  EXPECT_EQ(device_->compiled, 100);
  EXPECT_EQ(device_->loaded, 100);
  for (const gpu::KernelText& text : list) EXPECT_NE(cache_.get(text, {}), nullptr);
  cache_.prepare(asked, {});
  EXPECT_EQ(device_->compiled, 100);
  EXPECT_EQ(cache_.compiled(), 100u);
}

TEST_F(KernelCacheTest, WhatFailsWhilePreparingIsReportedByGet) {
  const std::vector<gpu::KernelText> list = texts(8);
  device_->compiles = false;
  cache_.prepare(pointers(list), {});
  EXPECT_EQ(cache_.size(), 0u);
  EXPECT_THROW(cache_.get(list[3], {}), BackendError);
  device_->compiles = true;
  cache_.prepare(pointers(list), {});
  EXPECT_EQ(cache_.size(), 8u);
}

// Its devices compile while they load, as Vulkan's do, and say what spares them that.
class CompilesWhileLoading : public test::FakeDriver {
 public:
  explicit CompilesWhileLoading(std::shared_ptr<test::FakeDevice> device) : FakeDriver(std::move(device)) {
    info_.loads_side_by_side = true;
  }
  std::unique_ptr<gpu::Module> load(std::span<const std::byte> binary, const gpu::KernelText& kernel) override {
    const std::size_t code = kernel.functions.size() + kernel.body.size();
    ++(binary.size() > code ? loaded_kept : loaded);
    return std::make_unique<gpu::Module>();
  }
  std::vector<std::byte> to_keep(std::vector<std::byte> binary, const gpu::Module&) const override {
    binary.resize(binary.size() + 3);
    return binary;
  }
  std::atomic<int> loaded = 0;  ///< by several threads
  std::atomic<int> loaded_kept = 0;
};

TEST(KernelCache, KeepsWhatADeviceCompiledWhileItLoaded) {
  const test::TemporaryFolder folder;
  const auto device = std::make_shared<test::FakeDevice>();
  const std::vector<gpu::KernelText> list = texts(20);
  CompilesWhileLoading driver(device);
  gpu::KernelCache first(driver, folder.path(""));
  first.prepare(pointers(list), {});
  EXPECT_EQ(device->compiled, 20);
  EXPECT_EQ(driver.loaded, 20);
  gpu::KernelCache second(driver, folder.path(""));
  second.prepare(pointers(list), {});
  for (const gpu::KernelText& text : list) EXPECT_NE(second.get(text, {}), nullptr);
  EXPECT_EQ(device->compiled, 20);
  EXPECT_EQ(driver.loaded, 20);
  EXPECT_EQ(driver.loaded_kept, 20);
}

}  // namespace
}  // namespace lockstep
