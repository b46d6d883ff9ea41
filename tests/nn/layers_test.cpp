#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include <lockstep/autograd.h>
#include <lockstep/nn.h>
#include <lockstep/ops.h>

#include "support/files.h"
#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

using test::message_of;

TEST(Linear, IsTheOpWithItsParameters) {
  nn::Module root;
  const nn::Linear layer(root, "layer", 5, 3);
  const nn::Linear plain(root, "plain", 5, 3, {.bias = false});
  const Tensor x = rand({2, 5});
  EXPECT_BITS_EQ(layer(x), linear(x, layer.weight, layer.bias.tensor()));
  EXPECT_BITS_EQ(plain(x), linear(x, plain.weight));
  EXPECT_FALSE(plain.bias.defined());
  EXPECT_EQ(plain.state_dict().size(), 1u);
}

TEST(Conv, OptionsReachTheOp) {
  nn::Module root;
  const nn::Conv2d conv(root, "conv", 4, 6, {3, 5}, {.stride = {2}, .padding = {1, 2}, .dilation = {1}, .groups = 2});
  EXPECT_EQ(conv.weight.shape(), (Shape{6, 2, 3, 5}));
  const Tensor x = rand({2, 4, 9, 11});
  EXPECT_BITS_EQ(conv(x), conv2d(x, conv.weight, conv.bias.tensor(), {.stride = {2}, .padding = {1, 2}, .groups = 2}));
  const nn::Conv1d line(root, "line", 4, 6, {3}, {.padding = {1}});
  EXPECT_EQ(line(rand({2, 4, 9})).shape(), (Shape{2, 6, 9}));
}

TEST(Conv, RefusesImpossibleSizes) {
  nn::Module root;
  EXPECT_THROW(nn::Conv2d(root, "conv", 4, 6, {3, 3, 3}), ValueError);
  EXPECT_THROW(nn::Conv2d(root, "conv", 4, 6, {3}, {.groups = 4}), ValueError);
  EXPECT_THROW(nn::Conv2d(root, "conv", 4, 6, {3}, {.groups = 0}), ValueError);
  EXPECT_TRUE(root.children().empty());
}

TEST(BatchNorm2d, EvaluatesWithItsStatistics) {
  nn::Module root;
  nn::BatchNorm2d norm(root, "norm", 2);
  norm.running_mean.set(Tensor::from<float>({1, 2}, {2}));
  norm.running_var.set(Tensor::from<float>({4, 9}, {2}));
  norm.eval();
  const Tensor x = rand({3, 2, 4, 5});
  EXPECT_BITS_EQ(norm(x), batch_norm(x, norm.running_mean, norm.running_var, norm.weight.tensor(), norm.bias.tensor()));
}

// What depends on the weights alone is kept from one inference to the next.
TEST(BatchNorm, InferenceFollowsItsWeights) {
  nn::BatchNorm1d norm(2);
  norm.running_mean.set(Tensor::from<float>({1, 2}, {2}));
  norm.running_var.set(Tensor::from<float>({4, 9}, {2}));
  norm.eval();
  const NoGrad no_grad;
  const Tensor x = rand({3, 2, 4}).eval(), flat = rand({3, 2}).eval();
  const auto expected = [&](const Tensor& input) {
    return batch_norm(input, norm.running_mean, norm.running_var, norm.weight.tensor(), norm.bias.tensor());
  };
  for (Cell* const cell :
       std::initializer_list<Cell*>{&norm.weight, &norm.bias, &norm.running_mean, &norm.running_var}) {
    for (int run = 0; run < 2; ++run) {
      EXPECT_BITS_EQ(norm(x), expected(x));
      EXPECT_BITS_EQ(norm(flat), expected(flat));
    }
    cell->set(cell->tensor() * 3.0 + 0.5);
  }
  EXPECT_BITS_EQ(norm(x), expected(x));
  norm.train();
  norm(x).eval();
  norm.eval();
  EXPECT_BITS_EQ(norm(x), expected(x));
  EXPECT_BITS_EQ(norm(x.to(DType::bf16)), expected(x.to(DType::bf16)));
  norm.to(DType::f64);
  EXPECT_BITS_EQ(norm(x.to(DType::f64)), expected(x.to(DType::f64)));
  norm.to(DType::bf16);
  for (int run = 0; run < 2; ++run) EXPECT_BITS_EQ(norm(x.to(DType::bf16)), expected(x.to(DType::bf16)));
}

TEST(BatchNorm2d, TrainingUsesTheBatchAndMovesTheRunningStatistics) {
  nn::Module root;
  const nn::BatchNorm2d norm(root, "bn1", 2);
  const Tensor x = rand({3, 2, 4, 5});
  const BatchNormResult expected =
      batch_norm_training(x, zeros({2}), ones({2}), norm.weight.tensor(), norm.bias.tensor());
  EXPECT_BITS_EQ(norm(x), expected.output);
  EXPECT_BITS_EQ(norm.running_mean, expected.running_mean);
  EXPECT_BITS_EQ(norm.running_var, expected.running_var);
  EXPECT_EQ(norm.num_batches_tracked.tensor().item<std::int64_t>(), 1);
  norm(x);
  EXPECT_EQ(norm.num_batches_tracked.tensor().item<std::int64_t>(), 2);
  EXPECT_EQ(root.state_dict().find("bn1.running_mean")->hash(), norm.running_mean.tensor().hash());
}

TEST(BatchNorm2d, WithoutMomentumAveragesOverTheBatches) {
  nn::Module root;
  const nn::BatchNorm1d norm(root, "bn", 1, {.momentum = std::nullopt});
  norm(Tensor::from<float>({1, 3}, {2, 1}));
  EXPECT_EQ(norm.running_mean.tensor().item<float>(), 2);
  EXPECT_EQ(norm.running_var.tensor().item<float>(), 2);
  norm(Tensor::from<float>({4, 8}, {2, 1}));
  EXPECT_EQ(norm.running_mean.tensor().item<float>(), 4);
  EXPECT_EQ(norm.running_var.tensor().item<float>(), 5);
}

TEST(BatchNorm2d, TrainingNeedsMoreThanOneValue) {
  nn::Module root;
  const nn::BatchNorm2d norm(root, "bn1", 2);
  EXPECT_THROW(norm(rand({1, 2, 1, 1})), ValueError);
  EXPECT_EQ(norm.num_batches_tracked.tensor().item<std::int64_t>(), 0);
}

TEST(Norms, AreTheOpsWithTheirParameters) {
  nn::Module root;
  const Tensor x = rand({2, 6, 5});
  const nn::LayerNorm layer(root, "layer", {6, 5}, {.eps = 1e-3});
  EXPECT_BITS_EQ(layer(x), layer_norm(x, {6, 5}, layer.weight.tensor(), layer.bias.tensor(), 1e-3));
  EXPECT_EQ(nn::LayerNorm(root, "bare", {5}, {.affine = false}).state_dict().size(), 0u);
  EXPECT_EQ(nn::LayerNorm(root, "no_bias", {5}, {.bias = false}).state_dict().size(), 1u);
  const nn::GroupNorm group(root, "group", 3, 6);
  EXPECT_BITS_EQ(group(x), group_norm(x, 3, group.weight.tensor(), group.bias.tensor()));
  EXPECT_THROW(nn::GroupNorm(root, "uneven", 4, 6), ValueError);
}

TEST(Layers, WithoutParametersAreTheirOps) {
  nn::Module root;
  const Tensor x = randn({2, 3, 6, 6});
  EXPECT_BITS_EQ(nn::ReLU(root, "a")(x), relu(x));
  EXPECT_BITS_EQ(nn::GELU(root, "a")(x), gelu(x));
  EXPECT_BITS_EQ(nn::GELU(root, "a", {.tanh = true})(x), gelu_tanh(x));
  EXPECT_BITS_EQ(nn::Softmax(root, "a", 1)(x), softmax(x, 1));
  EXPECT_BITS_EQ(nn::Identity(root, "a")(x), x);
  EXPECT_EQ(nn::Flatten(root, "a")(x).shape(), (Shape{2, 108}));
  EXPECT_BITS_EQ(nn::MaxPool2d(root, "a", 2)(x), max_pool2d(x, 2));
  EXPECT_BITS_EQ(nn::AvgPool2d(root, "a", 3)(x), avg_pool2d(x, 3));
  EXPECT_BITS_EQ(nn::AdaptiveAvgPool2d(root, "a", {1})(x), adaptive_avg_pool2d(x, {1, 1}));
}

TEST(Dropout, IsTheIdentityInEvaluationAndScalesInTraining) {
  nn::Module root;
  nn::Dropout dropout(root, "dropout", 0.25);
  const Tensor x = ones({4000});
  manual_seed(5);
  std::size_t dropped = 0;
  for (const float value : dropout(x).to_vector<float>()) {
    EXPECT_TRUE(value == 0 || value == static_cast<float>(1 / 0.75)) << value;
    dropped += value == 0 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(dropped), 1000, 110);
  dropout.eval();
  EXPECT_BITS_EQ(dropout(x), x);
  EXPECT_THROW(nn::Dropout(root, "bad", 1.5), ValueError);
}

TEST(Sequential, NamesByPositionAndRunsInOrder) {
  nn::Module root;
  nn::Sequential layers(root, "layers");
  nn::Linear& first = layers.add<nn::Linear>(4, 3);
  layers.add<nn::ReLU>();
  nn::Linear& last = layers.add<nn::Linear>(3, 2);
  EXPECT_EQ(last.path(), "layers.2");
  const Tensor x = rand({5, 4});
  EXPECT_BITS_EQ(layers(x), last(relu(first(x))));
  EXPECT_EQ(&layers[0], &first);
  EXPECT_THROW(layers[3], IndexError);
  EXPECT_THROW(layers(Tensor()), ValueError);
}

// --- initial values -------------------------------------------------------------------------------------------------

TEST(Init, StaysWithinPyTorchsBound) {
  manual_seed(3);  // of 50 values, one in 200 draws has none near an end
  nn::Module root;
  const nn::Linear layer(root, "linear", 16, 200);
  const nn::Conv2d conv(root, "conv", 4, 50, {2}, {.groups = 1});
  for (const Tensor& values : {layer.weight.tensor(), layer.bias.tensor(), conv.weight.tensor(), conv.bias.tensor()}) {
    EXPECT_LE(amax(values).item<float>(), 0.25f);
    EXPECT_GE(amin(values).item<float>(), -0.25f);
    EXPECT_GT(amax(values).item<float>(), 0.2f);
    EXPECT_LT(amin(values).item<float>(), -0.2f);
  }
}

TEST(Init, TwoLayersNeverShareADraw) {
  manual_seed(1);
  nn::Module root;
  std::set<std::uint64_t> hashes;
  for (int i = 0; i < 4; ++i) {
    const nn::Linear layer(root, "layer", 8, 8);
    hashes.insert(layer.weight.tensor().hash());
    hashes.insert(layer.bias.tensor().hash());
  }
  EXPECT_EQ(hashes.size(), 8u);
  // Not even where the sizes are equal and one tensor is the start of the other.
  const nn::Linear wide(root, "wide", 1, 64);
  EXPECT_NE(wide.weight.tensor().flatten().hash(), wide.bias.tensor().hash());
}

std::uint64_t fresh_weights() {
  nn::Module root;
  return nn::Linear(root, "layer", 8, 8).weight.tensor().hash();
}

TEST(Init, SeededRunsAgreeAndUnseededOnesDiffer) {
  manual_seed(7);
  const std::uint64_t first = fresh_weights();
  manual_seed(7);
  EXPECT_EQ(fresh_weights(), first);
  EXPECT_NE(fresh_weights(), first);
  default_generator() = Generator();
  const std::uint64_t unseeded = fresh_weights();
  default_generator() = Generator();
  EXPECT_NE(fresh_weights(), unseeded);
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
