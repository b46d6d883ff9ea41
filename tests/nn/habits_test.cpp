// PyTorch's habits with modules and training (tests/graph/habits_test.cpp has those with tensors).
#include <lockstep/lockstep.h>

#include <gtest/gtest.h>

#include "support/tensors.h"

namespace lockstep::test {
namespace {

using HabitFloats = std::vector<float>;

TEST(ModuleHabits, LayersWithoutAParent) {
  nn::Linear layer(2, 3);                                               // nn.Linear(2, 3)
  EXPECT_EQ(layer(ones(4, 2)).shape(), (Shape{4, 3}));
  EXPECT_EQ(layer.named_parameters()[0].first, "weight");
  EXPECT_EQ(layer.path(), "");
  EXPECT_EQ(nn::Conv2d(3, 4, 3, {.padding = 1})(ones(1, 3, 8, 8)).shape(), (Shape{1, 4, 8, 8}));
  EXPECT_EQ(nn::MaxPool2d(2)(ones(1, 1, 4, 4)).shape(), (Shape{1, 1, 2, 2}));       // nn.MaxPool2d(2)
  EXPECT_EQ(nn::MaxPool2d(3, {.stride = 1})(ones(1, 1, 4, 4)).shape(), (Shape{1, 1, 2, 2}));
  EXPECT_EQ(nn::AdaptiveAvgPool2d(1)(ones(1, 2, 4, 4)).shape(), (Shape{1, 2, 1, 1}));
  EXPECT_EQ(nn::LayerNorm(5)(ones(2, 5)).shape(), (Shape{2, 5}));                   // nn.LayerNorm(5)
  EXPECT_EQ(nn::BatchNorm2d(3)(randn(2, 3, 2, 2)).shape(), (Shape{2, 3, 2, 2}));
  EXPECT_EQ(nn::Embedding(10, 4)(tensor({1, 9})).shape(), (Shape{2, 4}));
  EXPECT_EQ(nn::ReLU()(tensor({-1.0, 1.0})).to_vector<float>(), (HabitFloats{0, 1}));  // nn.ReLU()(x)
  EXPECT_EQ(nn::LeakyReLU(0.5)(tensor({-1.0})).item(), -0.5);
  EXPECT_EQ(nn::Dropout(0.5).p(), 0.5);
  EXPECT_EQ(nn::LSTM(3, 5, {.num_layers = 2})(ones(7, 1, 3)).output.shape(), (Shape{7, 1, 5}));
  EXPECT_EQ(nn::MultiheadAttention(8, 2)(ones(3, 1, 8), ones(3, 1, 8), ones(3, 1, 8)).shape(), (Shape{3, 1, 8}));
  EXPECT_EQ(max_pool2d(ones(1, 1, 4, 4), 2).shape(), (Shape{1, 1, 2, 2}));          // F.max_pool2d(x, 2)
}

TEST(ModuleHabits, OneNumberForAll) {
  nn::Module m;
  const nn::Conv2d conv(m, "c", 3, 4, 3);
  EXPECT_EQ(conv.weight.shape(), (Shape{4, 3, 3, 3}));
  nn::Sequential net;                                                    // nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
  net.add<nn::Conv2d>(3, 4, 3);
  net.add<nn::ReLU>();
  net.add<nn::Flatten>();
  EXPECT_EQ(net(ones(1, 3, 5, 5)).shape(), (Shape{1, 36}));
}

TEST(ModuleHabits, ActivationsAreFunctions) {
  const Tensor x = randn(3, 1, 8);
  const auto run = [&](const nn::Activation& activation) {
    manual_seed(1);
    nn::TransformerEncoderLayer layer(8, 2, {.dim_feedforward = 16, .dropout = 0, .activation = activation});
    return layer(x);
  };
  const Tensor plain = run(gelu);                                        // activation=F.gelu
  EXPECT_BITS_EQ(run([](const Operand& y) { return gelu(y); }), plain);  // activation=lambda y: F.gelu(y)
  EXPECT_FALSE(equal(run(relu), plain));
  EXPECT_FALSE(equal(run([](const Operand& y) { return leaky_relu(y, 0.2); }), run(relu)));
  expect_error<ValueError>([&] { run(nullptr); }, {"activation is empty"});
}

TEST(ModuleHabits, SgdByHandOnParameters) {
  nn::Linear layer(1, 1, {.bias = false});
  layer.weight = tensor({{8.0}});                                        // layer.weight.data = ...
  const Tensor x = ones(1, 1);
  for (int round = 0; round < 10; ++round) {
    const Tensor y = layer(x);
    (y * y).sum().backward();
    const NoGrad scope;                                                  // with torch.no_grad():
    for (nn::Parameter& parameter : layer.parameters()) {                //   for p in model.parameters():
      parameter -= parameter.grad() * 0.25;                              //     p -= 0.25 * p.grad
      parameter.zero_grad();                                             //     p.grad = None
    }
  }
  EXPECT_EQ(layer.weight.tensor().item(), 8.0 / 1024);
  EXPECT_TRUE(layer.weight.requires_grad());
}

TEST(ModuleHabits, AssigningToParameters) {
  nn::Linear layer(2, 2);
  layer.weight = zeros(2, 2);
  layer.weight[0] = 3;                                                   // with no_grad: layer.weight[0] = 3
  layer.weight[1][1] += 1;
  layer.bias *= 0;
  EXPECT_EQ(layer.weight.tensor().to_vector<float>(), (HabitFloats{3, 3, 0, 1}));
  EXPECT_EQ(layer(ones(1, 2)).to_vector<float>(), (HabitFloats{6, 1}));
  EXPECT_TRUE(layer.weight.tensor().is_leaf() && layer.weight.requires_grad());
  EXPECT_EQ((layer.weight[{0, 1}].item()), 3);
  expect_error<ValueError>([&] { layer.weight = 0.5; }, {"full_like", "habits_test.cpp"});
  expect_error<ShapeError>([&] { layer.weight = zeros(3, 2); }, {"another shape"});
  nn::Linear without(2, 2, {.bias = false});
  expect_error<ValueError>([&] { without.bias = zeros(2); }, {"no slot"});
}

TEST(ModuleHabits, AStepWithAnOptimizer) {
  nn::Linear net(2, 1);
  optim::SGD optimizer(net.parameters(), {.lr = 0.5});                   // SGD(net.parameters(), lr=0.5)
  net.weight = zeros(1, 2);
  net.bias = zeros(1);
  optimizer.zero_grad();                                                 // optimizer.zero_grad()
  const Tensor loss = mse_loss(net(tensor({{1.0, 2.0}})), tensor({{1.0}}));
  loss.backward();                                                       // loss.backward()
  optimizer.step();                                                      // optimizer.step()
  EXPECT_EQ(net.weight.tensor().to_vector<float>(), (HabitFloats{1, 2}));
  EXPECT_EQ(loss.item(), 1);                                             // loss.item()
  net.to("cpu");                                                         // net.to("cpu")
  net.eval();                                                            // net.eval()
  EXPECT_FALSE(net.training());
}

}  // namespace
}  // namespace lockstep::test
