// Two products of one left operand as one kernel, where a device says that this pays (graph/pairs.h): the bits of the
// two kernels, which others compute, and what is no pair.
#include "graph/pairs.h"

#include <gtest/gtest.h>

#include <lockstep/autograd.h>
#include <lockstep/numerics.h>
#include <lockstep/ops.h>
#include <lockstep/shadow.h>

#include "backends/backend.h"
#include "backends/cpu/contraction/q8.h"
#include "backends/cpu/isa.h"
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

// Products of one left operand are one kernel there, and what multiplies them belongs to the last one
// (graph/siblings.h).
bool runs_products_together(Device device) {
  return device.kind == DeviceKind::cpu &&
         contraction::q8_loops(Encoding::q4_0, selected_isa()).multiply_in_place != nullptr;
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
    const bool together = runs_products_together(device);
    EXPECT_EQ(kernels_for(result), has_pairs(device) || together ? 1u : 2u) << device.to_string();
    EXPECT_BITS_EQ(result.to(Device()), expected.to(Device()));
    // The same weights, a factor that somebody keeps, another left operand.
    EXPECT_EQ(kernels_for(gated(x, {weights.gate, weights.gate, weights.bias}, false)), together ? 1u : 2u)
        << device.to_string();
    const NumericsScope scope(Numerics::q8);
    const Tensor kept = linear(x, weights.gate);
    EXPECT_EQ(kernels_for(kept * linear(x, weights.up)), together ? 1u : 2u) << device.to_string();
    EXPECT_EQ(kernels_for(linear(x, weights.gate) * linear(x + 1.0, weights.up)), 3u) << device.to_string();
  }
}

// Hopper's warpgroups, of which each may have half of a tile's k, rows and columns that fill no tile, and rows whose
// scales are no ordinary numbers. Where it is evaluated by itself, a gate is a kernel of its own.
TEST(ProductPairs, OfManyRowsHaveTheBitsOfTwoKernels) {
  const NoGrad no_gradients;
  for (const Device device : test_devices()) {
    if (device.kind != DeviceKind::cuda) continue;
    for (const Encoding encoding : {Encoding::q8_0, Encoding::q4_0, Encoding::q4_1, Encoding::q4_k, Encoding::q5_k}) {
      for (const Shape& size : {Shape{64, 14336, 1024}, Shape{33, 8500, 256}, Shape{50, 9001, 768},
                                Shape{128, 9000, 1280}, Shape{64, 4224, 512}, Shape{300, 9001, 512}}) {
        SCOPED_TRACE(::testing::Message() << name_of(encoding) << " " << size.to_string());
        const Weights weights = weights_of(size[1], size[2], encoding, device);
        for (const bool special : {false, true}) {
          const Tensor x = random_tensor({size[0], size[2]}, DType::f32, 4, device, special);
          const auto apart = [&] {
            const NumericsScope scope(Numerics::q8);
            const Tensor gate = linear(x, weights.gate).eval();
            return (silu(gate) * linear(x, weights.up)).eval();
          };
          EXPECT_BITS_EQ(gated(x, weights, false), apart());
        }
      }
    }
  }
}

// What one workgroup hands to the next has to be there each time.
TEST(ProductPairs, OfManyRowsAreTheSameEveryTime) {
  const NoGrad no_gradients;
  constexpr int kTimes = 1500;
  for (const Device device : test_devices()) {
    if (device.kind != DeviceKind::cuda) continue;
    for (const Encoding encoding : {Encoding::q8_0, Encoding::q4_k}) {
      const Weights weights = weights_of(14336, 4096, encoding, device);
      const Tensor x = random_tensor({64, 4096}, DType::f32, 2).to(device).eval();
      const Tensor first = gated(x, weights, false).eval();
      Tensor different = zeros({}, {.dtype = DType::i64, .device = device});
      for (int i = 0; i < kTimes; ++i) {
        for (int j = 0; j < 4; ++j) {
          different = different + sum(ne(gated(x + 0.0 * j, weights, false), first).to(DType::i64));
        }
        different.eval();
      }
      EXPECT_EQ(different.to_vector<std::int64_t>().front(), 0) << "of " << 4 * kTimes << " " << name_of(encoding);
    }
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
