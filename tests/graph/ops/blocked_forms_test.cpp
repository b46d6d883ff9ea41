// Products in blocked numerics by each of the instructions that GPUs have for them: a device that has more is told that
// it has less. Bits are those of the CPU.
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "support/limited_driver.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

using test::Limited;
using test::limited_devices;

class BlockedForms : public ::testing::Test {
 protected:
  void SetUp() override {
    if (limited_devices().empty()) GTEST_SKIP() << "no GPU under test: LOCKSTEP_TEST_DEVICES";
  }
  static void expect_bits_of_the_cpu(const std::function<Tensor(Device)>& compute) {
    const NumericsScope scope(Numerics::blocked);
    const Tensor expected = compute(Device{DeviceKind::cpu, 0});
    for (const Limited& limited : limited_devices()) {
      EXPECT_BITS_EQ(compute(limited.device).to(Device{DeviceKind::cpu, 0}), expected) << limited.what;
    }
  }
};

// Devices are asked at their start whether their products are right.
TEST_F(BlockedForms, WhatADeviceIsToldToHaveIsFoundRight) {
  for (const Limited& limited : limited_devices()) {
    const std::string description = backend_of(limited.device).description();
    for (const auto& [name, found] : {std::pair{"matrices", "matrices of bytes"}, {"dots", "dot products of bytes"}}) {
      const bool told = limited.what.find(std::string("with ") + name) != std::string::npos;
      EXPECT_EQ(description.find(found) != std::string::npos, told) << limited.what << ": " << description;
    }
  }
}

TEST_F(BlockedForms, ProductsHaveTheSameBits) {
  struct Product {
    std::int64_t batch, m, n, k;
  };
  std::uint64_t seed = 0;
  for (const Product& p : {Product{1, 1, 1, 1}, Product{1, 3, 2, 0}, Product{1, 33, 65, 129}, Product{2, 130, 70, 300},
                           Product{1, 128, 64, 128}, Product{3, 5, 200, 517}, Product{1, 257, 129, 1024}}) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      ++seed;
      SCOPED_TRACE(std::to_string(p.batch) + " x " + std::to_string(p.m) + " x " + std::to_string(p.n) + " x " +
                   std::to_string(p.k) + " " + std::string(name_of(dtype)));
      expect_bits_of_the_cpu([&](Device device) {
        const bool special = seed % 3 == 0;
        const bool turned = seed % 4 == 0;
        const Tensor a = random_tensor({p.batch, p.m, p.k}, dtype, seed, device, special);
        const Tensor b = turned ? random_tensor({p.batch, p.n, p.k}, dtype, seed + 100, device, special).transpose(1, 2)
                                : random_tensor({p.batch, p.k, p.n}, dtype, seed + 100, device, special);
        return turned ? relu(matmul(a, b)) + 1 : matmul(a, b);
      });
    }
  }
}

// Few outputs of a long k are shared among workgroups.
TEST_F(BlockedForms, ALongKHasTheSameBits) {
  expect_bits_of_the_cpu([](Device device) {
    const Tensor a = random_tensor({9, 6000}, DType::bf16, 1, device);
    const Tensor b = random_tensor({6000, 70}, DType::bf16, 2, device);
    return relu(matmul(a, b));
  });
}

TEST_F(BlockedForms, ConvolutionsAndTheirGradientsHaveTheSameBits) {
  expect_bits_of_the_cpu([](Device device) {
    const Tensor x = requires_grad(random_tensor({3, 16, 11, 9}, DType::bf16, 1, device));
    const Tensor w = requires_grad(random_tensor({24, 8, 3, 3}, DType::bf16, 2, device));
    const Tensor y =
        conv2d(x, w, random_tensor({24}, DType::bf16, 3, device), {.stride = {2, 1}, .padding = {1, 1}, .groups = 2});
    const std::vector<Tensor> gradient = gradients(sum(y * y), {x, w});
    return cat({y.reshape({-1}), gradient[0].reshape({-1}), gradient[1].reshape({-1})}, 0);
  });
}

// Sums that are subnormal on the way, which some devices' own fma flushes.
TEST_F(BlockedForms, SmallSumsHaveTheSameBits) {
  expect_bits_of_the_cpu([](Device device) {
    const Tensor a = random_tensor({40, 700}, DType::bf16, 1, device) * 0x1p-62;
    const Tensor b = random_tensor({700, 90}, DType::bf16, 2, device) * 0x1p-63;
    return matmul(a, b);
  });
}

}  // namespace
}  // namespace lockstep
