// Two products of one left operand as one kernel, where a device says that this pays (graph/pairs.h): the bits of the
// two kernels, which others compute, and what is no pair.
#include "graph/pairs.h"

#include <gtest/gtest.h>

#include <lockstep/autograd.h>
#include <lockstep/numerics.h>
#include <lockstep/ops.h>
#include <lockstep/shadow.h>

#include "backends/backend.h"
#include "graph/window.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

struct Weights {
  Tensor gate, up, bias;
};

Weights weights_of(std::int64_t n, std::int64_t k, Encoding encoding, Device device) {
  return {random_packed({n, k}, encoding, 1, device), random_packed({n, k}, encoding, 2, device),
          random_tensor({n}, DType::f32, 3).to(device)};
}

Tensor gated(const Tensor& x, const Weights& weights, bool with_bias) {
  const NumericsScope scope(Numerics::q8);
  if (with_bias) return gelu(linear(x, weights.gate, weights.bias)) * linear(x, weights.up, weights.bias) + 1.0;
  return silu(linear(x, weights.gate)) * linear(x, weights.up);
}

bool has_pairs(Device device) {
  return device.kind != DeviceKind::ref && device.kind != DeviceKind::cpu;
}

std::uint64_t kernels_for(const Tensor& value) {
  const std::uint64_t before = graph::window_statistics(value.device()).kernels;
  value.eval();
  return graph::window_statistics(value.device()).kernels - before;
}

TEST(ProductPairs, HaveTheBitsOfTwoKernels) {
  const NoGrad no_gradients;
  const auto check = [](Encoding encoding, std::int64_t rows, std::int64_t n, std::int64_t k) {
    SCOPED_TRACE(::testing::Message() << name_of(encoding) << " " << rows << " x " << n << " x " << k);
    same_everywhere([&](Device d) {
      const Tensor x = random_tensor({rows, k}, DType::f32, 4).to(d);
      return gated(x, weights_of(n, k, encoding, d), n == 37);
    });
  };
  check(Encoding::q8_0, 1, 37, 1024);
  check(Encoding::q4_k, 3, 37, 512);
  for (const std::int64_t rows : {1, 9}) check(Encoding::q4_0, rows, 200, 256);
}

TEST(ProductPairs, AreOneKernelWhereItPays) {
  const NoGrad no_gradients;
  for (const Device device : test_devices()) {
    const Tensor x = random_tensor({1, 512}, DType::f32, 4).to(device).eval();
    const Weights weights = weights_of(64, 512, Encoding::q4_0, device);
    const Device ref{DeviceKind::ref};
    const Tensor expected = gated(x.to(ref), weights_of(64, 512, Encoding::q4_0, ref), false).eval();
    const Tensor result = gated(x, weights, false);
    EXPECT_EQ(kernels_for(result), has_pairs(device) ? 1u : 2u) << device.to_string();
    EXPECT_BITS_EQ(result.to(Device()), expected.to(Device()));
    // The same weights, a factor that somebody keeps, another left operand.
    EXPECT_EQ(kernels_for(gated(x, {weights.gate, weights.gate, weights.bias}, false)), 2u) << device.to_string();
    const NumericsScope scope(Numerics::q8);
    const Tensor kept = linear(x, weights.gate);
    EXPECT_EQ(kernels_for(kept * linear(x, weights.up)), 2u) << device.to_string();
    EXPECT_EQ(kernels_for(linear(x, weights.gate) * linear(x + 1.0, weights.up)), 3u) << device.to_string();
  }
}

// Watches see both.
TEST(ProductPairs, AreTwoKernelsForThoseWhoLook) {
  const NoGrad no_gradients;
  for (const Device device : test_devices()) {
    const Tensor x = random_tensor({1, 512}, DType::f32, 4).to(device).eval();
    const Weights weights = weights_of(64, 512, Encoding::q4_0, device);
    const Tensor before = gated(x, weights, false).eval();
    const Shadow shadow({DeviceKind::ref}, {.cases = ""});
    const Tensor result = gated(x, weights, false);
    EXPECT_EQ(kernels_for(result), 2u);
    EXPECT_EQ(shadow.counts().different, 0u);
    EXPECT_BITS_EQ(result.to(Device()), before.to(Device()));
  }
}

}  // namespace
}  // namespace lockstep
