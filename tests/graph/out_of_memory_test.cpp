// When a device's memory is exhausted, the error tells what fills it, and everything goes on.
#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "backends/backend.h"
#include "backends/gpu/backend.h"
#include "support/fake_driver.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

class OutOfMemory : public ::testing::Test {
 protected:
  static constexpr Device kDevice{DeviceKind::cuda, 901};
  static constexpr std::size_t kMemory = std::size_t{100} << 20;
  static void SetUpTestSuite() {
    auto device = std::make_shared<test::FakeDevice>();
    device->memory_limit = kMemory;
    register_backend(std::make_unique<gpu::GpuBackend>(kDevice, std::make_unique<test::FakeDriver>(device), ""));
  }
  static Tensor megabytes(std::int64_t count) { return (ones({count, 1 << 18}, {.device = kDevice}) * 2.0).eval(); }
};

TEST_F(OutOfMemory, ListsTheLargestTensorsByName) {
  const Tensor weight = megabytes(20).named("encoder.weight");
  const Tensor view = weight.narrow(0, 0, 1).named("encoder.weight.first");
  const Tensor cached = exp(megabytes(10)).eval();
  expect_error<OutOfMemoryError>([] { megabytes(60); },
                                 {"cannot allocate", "the largest tensors on cuda:901", "21.0 MB  f32 [20, 262144]",
                                  "encoder.weight and 1 more", "f32 [10, 262144]  exp at ", "out_of_memory_test.cpp"});
  expect_error<OutOfMemoryError>([] { megabytes(70).to(Device{}); }, {"encoder.weight"});
  const std::vector<float> host(50 << 18);
  expect_error<OutOfMemoryError>([&] { Tensor::from<float>(host, {50, 1 << 18}, kDevice); }, {"encoder.weight"});
  EXPECT_EQ((weight.to(Device{}) * 0.0).numel(), 20 << 18) << "the process and the tensors survive";
}

TEST_F(OutOfMemory, TheCacheIsGivenBackFirst) {
  for (int i = 0; i < 3; ++i) {
    megabytes(40);
    megabytes(60);  // fits only without what the first one left
  }
}

TEST_F(OutOfMemory, WhatNeverFitsSaysSo) {
  const Tensor x = ones({1}, {.device = kDevice}).eval().expand({std::int64_t{1} << 40});
  expect_error<OutOfMemoryError>([&] { (x + 1.0).eval(); }, {"can never be allocated", "the device has 104857600"});
  expect_error<OutOfMemoryError>([&] { argsort(x.reshape({1 << 10, 1 << 30})).eval(); }, {"can never be allocated"});
}

// Operands are not computed for a product that nothing can hold.
TEST_F(OutOfMemory, NothingIsComputedForWhatNeverFits) {
  for (const Device device : {kDevice, Device{}}) {
    const Tensor column = ones({1 << 24, 1}, {.device = device}) * 2.0;
    const std::size_t before = work_statistics(device).kernels;
    expect_error<OutOfMemoryError>([&] { matmul(exp(column), exp(column).reshape({1, -1}).expand({1, 1 << 24})).eval(); },
                                   {"1125899906842624 bytes can never be allocated", "matmul at ",
                                    "out_of_memory_test.cpp"});
    EXPECT_EQ(work_statistics(device).kernels, before);
  }
}

TEST(HostMemory, ReadingMoreThanThereIsIsAnErrorOfOurs) {
  const Tensor wide = zeros({250'000'000'000'000});
  expect_error<OutOfMemoryError>([&] { wide.to_vector<float>(); },
                                 {"to_vector", "1000000000000000 bytes", "f32 [250000000000000]"});
  expect_error<OutOfMemoryError>([&] { zeros({250'000'000'000'000}, {.dtype = DType::boolean}).to_vector<bool>(); },
                                 {"to_vector"});
  expect_error<OutOfMemoryError>([&] { wide.hash(); }, {"1000000000000000 bytes can never be allocated"});
  expect_error<OutOfMemoryError>([&] { wide.to(Device{DeviceKind::ref, 0}); }, {"can never be allocated"});
  expect_error<OutOfMemoryError>([&] { wide.eval(); }, {"can never be allocated"});
  EXPECT_EQ((zeros({2}) + 1.0).to_vector<float>(), (std::vector<float>{1, 1}));
}

}  // namespace
}  // namespace lockstep
