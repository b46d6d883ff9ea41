#include <lockstep/nn/init.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include <lockstep/nn.h>
#include <lockstep/ops.h>

#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

using namespace nn;

struct Statistics {
  double mean = 0, deviation = 0, low = 0, high = 0;
};
Statistics of(const Tensor& values) {
  const Tensor wide = values.to(DType::f64).flatten();
  return {mean(wide).item<double>(), std(wide).item<double>(), amin(wide).item<double>(), amax(wide).item<double>()};
}

void expect_uniform(const Tensor& values, double bound) {
  const Statistics found = of(values);
  EXPECT_NEAR(found.mean, 0, 0.05 * bound);
  EXPECT_NEAR(found.deviation, bound / std::sqrt(3.0), 0.03 * bound);
  EXPECT_LE(found.high, bound * (1 + 1e-6));
  EXPECT_GE(found.low, -bound * (1 + 1e-6));
  EXPECT_GT(found.high, 0.98 * bound);
}

void expect_normal(const Tensor& values, double mean, double deviation) {
  const Statistics found = of(values);
  EXPECT_NEAR(found.mean, mean, 0.05 * deviation);
  EXPECT_NEAR(found.deviation, deviation, 0.04 * deviation);
  EXPECT_GT(found.high, mean + 2.5 * deviation);
}

TEST(Initialisers, FansAndGainsArePyTorchs) {
  EXPECT_EQ(init::fans({6, 4}).in, 4);
  EXPECT_EQ(init::fans({6, 4}).out, 6);
  EXPECT_EQ(init::fans({6, 4, 3, 2}).in, 24);
  EXPECT_EQ(init::fans({6, 4, 3, 2}).out, 36);
  EXPECT_EQ(init::gain(Nonlinearity::linear), 1);
  EXPECT_EQ(init::gain(Nonlinearity::tanh), 5.0 / 3);
  EXPECT_EQ(init::gain(Nonlinearity::relu), std::sqrt(2.0));
  EXPECT_NEAR(init::gain(Nonlinearity::leaky_relu, 0.2), 1.3867504905630728, 1e-15);
  EXPECT_EQ(init::gain(Nonlinearity::selu), 0.75);
}

TEST(Initialisers, HaveTheirDistributions) {
  manual_seed(11);
  const Shape shape{50, 20, 3, 2};  // 120 in, 300 out
  expect_uniform(init::kaiming_uniform(shape), std::sqrt(2.0) * std::sqrt(3.0 / 120));
  expect_uniform(init::kaiming_uniform(shape, {.negative_slope = std::sqrt(5.0)}), 1 / std::sqrt(120.0));
  expect_normal(init::kaiming_normal(shape, {.mode = init::FanMode::out, .nonlinearity = Nonlinearity::tanh}), 0,
                5.0 / 3 / std::sqrt(300.0));
  expect_uniform(init::xavier_uniform(shape, 2), 2 * std::sqrt(6.0 / 420));
  expect_normal(init::xavier_normal(shape), 0, std::sqrt(2.0 / 420));
  expect_normal(init::normal(shape, 3, 0.5), 3, 0.5);
  expect_uniform(init::uniform(shape, -2, 2), 2);
  const Statistics cut = of(init::trunc_normal({6000}, 1, 2, 0, 2));
  EXPECT_GE(cut.low, 0);
  EXPECT_LE(cut.high, 2);
  EXPECT_NEAR(cut.mean, 1, 0.05);
  EXPECT_NEAR(cut.deviation, 0.5659, 0.02);  // of the normal distribution cut half a deviation from its mean
}

TEST(Initialisers, OrthogonalRowsOrColumns) {
  for (const Shape& shape : {Shape{5, 5}, Shape{4, 3, 3}, Shape{9, 2, 2}}) {
    const Tensor w = init::orthogonal(shape, 2, {.tensor = {.dtype = DType::f64}}).reshape({shape[0], -1});
    const Tensor narrow = w.shape()[0] > w.shape()[1] ? w.transpose(0, 1) : w;
    const Tensor product = matmul(narrow, narrow.transpose(0, 1));
    const Tensor error = abs(product - 4 * eye(narrow.shape()[0], {}, {.dtype = DType::f64}));
    EXPECT_LT(amax(error).item<double>(), 1e-13);
  }
}

TEST(Initialisers, WithoutChance) {
  EXPECT_EQ(init::eye({2, 3}).to_vector<float>(), (std::vector<float>{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(init::constant({2}, 1.5).to_vector<float>(), (std::vector<float>{1.5, 1.5}));
  const Tensor x = rand({1, 4, 5, 6});
  EXPECT_BITS_EQ(conv2d(x, init::dirac({4, 4, 3, 3}), {}, {.padding = {1}}), x);
  EXPECT_BITS_EQ(conv2d(x, init::dirac({4, 2, 3, 3}, 2), {}, {.padding = {1}, .groups = 2}), x);
  EXPECT_EQ(sum(init::dirac({5, 2, 3})).item<float>(), 2);
}

TEST(Initialisers, AgreeOnEveryDeviceAndShareNoDraw) {
  const std::vector<std::function<Tensor(init::Target)>> all{
      [](init::Target target) {
        return init::kaiming_uniform({6, 4}, {}, target);
      },
      [](init::Target target) {
        return init::kaiming_normal({6, 4}, {}, target);
      },
      [](init::Target target) {
        return init::xavier_uniform({6, 4}, 1, target);
      },
      [](init::Target target) {
        return init::xavier_normal({6, 4}, 1, target);
      },
      [](init::Target target) {
        return init::orthogonal({6, 4}, 1, target);
      },
      [](init::Target target) {
        return init::trunc_normal({6, 4}, 0, 1, -2, 2, target);
      },
      [](init::Target target) {
        return init::uniform({6, 4}, 0, 1, target);
      },
      [](init::Target target) {
        return init::normal({6, 4}, 0, 1, target);
      },
  };
  std::set<std::uint64_t> hashes;
  for (const auto& make : all) {
    hashes.insert(same_everywhere([&](Device device) {
                    Generator generator(5);
                    const init::Target target{.tensor = {.device = device}, .generator = &generator};
                    return cat({make(target), make(target)}, 0);
                  }).hash());
    Generator generator(5);
    EXPECT_NE(make({.generator = &generator}).hash(), make({.generator = &generator}).hash());
  }
  EXPECT_EQ(hashes.size(), all.size());
}

TEST(Initialisers, RefuseShapesWithoutMeaning) {
  expect_error<ShapeError>([] { init::kaiming_uniform({4}); }, {"two dimensions"});
  expect_error<ShapeError>([] { init::orthogonal({4}); }, {"two dimensions"});
  expect_error<ShapeError>([] { init::dirac({4, 4}); }, {"3 to 5"});
  expect_error<ShapeError>([] { init::eye({4}); }, {"matrix"});
  expect_error<ValueError>([] { init::trunc_normal({4}, 0, 1, 2, 2); }, {"below"});
}

// Every layer with random parameters, made twice under one seed and once without.
TEST(Initialisers, LayersOfEveryKindDrawAnew) {
  const auto hashes = [] {
    Module root;
    const Linear a(root, "a", 8, 8);
    const Linear b(root, "b", 8, 8);
    const Embedding table(root, "table", 8, 8);
    const ConvTranspose2d spread(root, "spread", 4, 4, {2});
    const LSTM memory(root, "memory", 8, 8, {.num_layers = 2, .bidirectional = true});
    const TransformerEncoder encoder(root, "encoder", 8, 2, 2, {.layer = {.dim_feedforward = 8}});
    std::vector<std::uint64_t> result;
    for (const auto& [key, parameter] : root.named_parameters()) {
      if (key.find("norm") == std::string::npos && key.find("in_proj_bias") == std::string::npos &&
          key.find("out_proj.bias") == std::string::npos) {
        result.push_back(parameter.tensor().hash());
      }
    }
    return result;
  };
  manual_seed(3);
  const std::vector<std::uint64_t> first = hashes();
  EXPECT_EQ(std::set<std::uint64_t>(first.begin(), first.end()).size(), first.size());
  manual_seed(3);
  EXPECT_EQ(hashes(), first);
  default_generator() = Generator();
  const std::vector<std::uint64_t> unseeded = hashes();
  EXPECT_NE(unseeded, first);
  default_generator() = Generator();
  EXPECT_NE(hashes(), unseeded);
}

TEST(Initialisers, LayersStartWithinPyTorchsBounds) {
  manual_seed(4);
  Module root;
  expect_uniform(Bilinear(root, "a", 16, 20, 30).weight.tensor(), 1 / std::sqrt(16.0));
  expect_uniform(Conv3d(root, "b", 4, 30, {3}).weight.tensor(), 1 / std::sqrt(108.0));
  expect_uniform(ConvTranspose2d(root, "c", 40, 20, {3}).weight.tensor(), 1 / std::sqrt(180.0));
  expect_uniform(GRU(root, "d", 30, 25).weights()[0].input.tensor(), 1 / std::sqrt(25.0));
  expect_normal(Embedding(root, "e", 100, 50).weight.tensor(), 0, 1);
  const MultiheadAttention attention(root, "f", 32, 4);
  expect_uniform(attention.in_proj_weight.tensor(), std::sqrt(6.0 / 128));
  EXPECT_EQ(sum(abs(attention.in_proj_bias)).item<float>() + sum(abs(attention.out_proj.bias)).item<float>(), 0);
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
