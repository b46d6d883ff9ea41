// Many threads share one device: each computes what it would compute alone.
#include <gtest/gtest.h>

#include <thread>

#include "support/tensors.h"

namespace lockstep {
namespace {

TEST(DeviceThreads, SixtyFourThreadsGetTheBitsOfOne) {
  constexpr std::size_t kThreads = 64;
  const auto compute = [](std::size_t i, Device device) {
    const auto n = static_cast<std::int64_t>(20 + i % 4);
    const Tensor x = random_tensor({n, 30}, DType::f32, i, device);
    const Tensor y = softmax(matmul(x, random_tensor({30, n}, DType::f32, i + 100, device)), -1);
    return (y + sum(x)).hash();
  };
  std::vector<std::uint64_t> expected;
  for (std::size_t i = 0; i < kThreads; ++i) expected.push_back(compute(i, {DeviceKind::ref, 0}));
  for (const Device& device : test_devices()) {
    std::vector<std::uint64_t> got(kThreads);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] { got[i] = compute(i, device); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(got, expected) << device.to_string();
  }
}

}  // namespace
}  // namespace lockstep
