// Layers whose inference comes again without their forward().
#include <lockstep/nn/replayed.h>

#include <gtest/gtest.h>

#include <optional>

#include <lockstep/autocast.h>
#include <lockstep/autograd.h>
#include <lockstep/nn.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>

#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

// Counts how often forward() is called.
struct Counted : nn::Layer {
  nn::Conv2d conv{*this, "conv", 2, 3, {3}, {.padding = 1}};
  nn::BatchNorm2d norm{*this, "norm", 3};
  bool draws = false;
  mutable int calls = 0;
  Counted() { eval(); }
  Tensor forward(const Operand& x) const override {
    ++calls;
    const Tensor y = relu(norm(conv(x)));
    return draws ? y + rand({1}, {.device = y.device()}) : mean(y, {2, 3});
  }
};

Tensor picture(std::uint64_t seed, std::int64_t side = 6, Device device = {}) {
  return random_tensor({1, 2, side, side}, DType::f32, seed).to(device).eval();
}

// Whether forward() is called where the same input has come before often enough.
bool is_called(const Counted& layer, const nn::Replayed& replayed, const Tensor& x) {
  const int before = layer.calls;
  replayed(x).eval();
  return layer.calls != before;
}

void warm_up(const nn::Replayed& replayed, const Tensor& x) {
  for (int run = 0; run < 3; ++run) replayed(x).eval();
}

TEST(Replayed, GivesTheLayersBitsFromTheFourthCallOnWithoutItsForward) {
  const NoGrad no_grad;
  for (const Device device : test_devices()) {
    Counted layer;
    layer.to(device);
    const nn::Replayed replayed(layer);
    for (std::uint64_t seed = 1; seed < 6; ++seed) {
      for (const std::int64_t side : {6, 9}) {
        const Tensor x = picture(seed, side, device);
        const Tensor expected = layer(x).eval();
        const int before = layer.calls;
        EXPECT_BITS_EQ(replayed(x), expected);
        EXPECT_EQ(layer.calls, before + (seed < 4 ? 1 : 0)) << device.to_string();
      }
    }
  }
}

TEST(Replayed, FollowsParametersAndBuffers) {
  const NoGrad no_grad;
  Counted layer;
  const nn::Replayed replayed(layer);
  const Tensor x = picture(1);
  warm_up(replayed, x);
  layer.norm.running_mean = ones({3}) * 0.25;
  EXPECT_BITS_EQ(replayed(x), layer(x));
  warm_up(replayed, x);
  EXPECT_FALSE(is_called(layer, replayed, x));
  layer.conv.weight = layer.conv.weight * 0.5;
  EXPECT_BITS_EQ(replayed(x), layer(x));
}

TEST(Replayed, CallsTheLayerWhereMoreIsWantedThanItsResult) {
  Counted layer;
  const nn::Replayed replayed(layer);
  const Tensor x = picture(1);
  std::optional<NoGrad> no_grad(std::in_place);
  warm_up(replayed, x);
  EXPECT_FALSE(is_called(layer, replayed, x));
  EXPECT_TRUE(is_called(layer, replayed, picture(1, 8).narrow(3, 0, 6).narrow(2, 0, 6)));  // a view
  {
    const Autocast autocast(DType::bf16);
    EXPECT_BITS_EQ(replayed(x), layer(x));
  }
  layer.norm.train();
  const Tensor mean_before = layer.norm.running_mean.tensor();
  EXPECT_TRUE(is_called(layer, replayed, x));
  EXPECT_NE(layer.norm.running_mean.tensor().hash(), mean_before.hash());
  layer.eval();
  warm_up(replayed, x);
  no_grad.reset();
  sum(replayed(x)).backward();
  EXPECT_TRUE(layer.conv.weight.grad().defined());
}

TEST(Replayed, CallsALayerThatDrawsNumbers) {
  const NoGrad no_grad;
  Counted layer;
  layer.draws = true;
  const nn::Replayed replayed(layer);
  const Tensor x = picture(1);
  for (int run = 0; run < 6; ++run) {
    manual_seed(static_cast<std::uint64_t>(run));
    const Tensor expected = layer(x).eval();
    manual_seed(static_cast<std::uint64_t>(run));
    EXPECT_BITS_EQ(replayed(x), expected);
  }
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
