// Kernels that are made ready together, with a compiler that a test can break. What is on disk: faults_test.cpp.
#include "backends/gpu/kernel_cache.h"

#include <gtest/gtest.h>

#include "support/fake_driver.h"

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

}  // namespace
}  // namespace lockstep
