// PyTorch's habits with modules and training: lines beside theirs with PyTorch's values, and others (tests/graph/habits_test.cpp has those with tensors).
#include <lockstep/lockstep.h>

#include <gtest/gtest.h>

#include "support/habits.h"
#include "support/tensors.h"

namespace lockstep::test {
namespace {

using HabitFloats = std::vector<float>;

// clang-format off: pairs of lines that are compared by eye
TEST(ModuleHabitsAsInTorch, FunctionsAndLayers) {
  expect_as_in_torch({
      HABIT("F.relu(y)", return relu(y)),
      HABIT("F.gelu(y)", return gelu(y)),
      HABIT("F.softmax(y, dim=-1)", return softmax(y, -1)),
      HABIT("F.max_pool2d(x[None, None], 2)", return max_pool2d(x[{kNone, kNone}], 2)),
      HABIT("F.avg_pool2d(x[None, None], 2, stride=1)", return avg_pool2d(x[{kNone, kNone}], 2, {.stride = 1})),
      HABIT("F.max_pool2d(y[None, None], (2, 3))", return max_pool2d(y[{kNone, kNone}], {2, 3})),
      HABIT("F.mse_loss(x, y)", return mse_loss(x, y)),
      HABIT("F.cross_entropy(y, i)", return cross_entropy(y, i)),
      HABIT("F.binary_cross_entropy_with_logits(y, (x > 2).float(), pos_weight=v)", return binary_cross_entropy_with_logits(y, (x > 2).to(DType::f32), {.pos_weight = v})),
      HABIT("F.one_hot(i, 3)", return one_hot(i, 3)),
      HABIT("F.layer_norm(x, (3,))", return layer_norm(x, 3)),
      HABIT("F.pad(x, (1, 1))", return pad(x, {1, 1})),
      HABIT("torch.nan_to_num(y.log(), nan=-1.0)", return nan_to_num(y.log(), {.nan = -1.0})),
      HABIT("nn.ReLU()(y)", return nn::ReLU()(y)),
      HABIT("nn.LayerNorm(3)(y)", return nn::LayerNorm(3)(y)),
      HABIT("nn.MaxPool2d(2, stride=1)(y[None, None])", return nn::MaxPool2d(2, {.stride = 1})(y[{kNone, kNone}])),
      HABIT("nn.CrossEntropyLoss(label_smoothing=0.1)(y, i)", return nn::CrossEntropyLoss{{.label_smoothing = 0.1}}(y, i)),
      HABIT("l = nn.Linear(3, 2); l.weight.data = y; l.bias.data = v[:2]; l(x)", nn::Linear l(3, 2); l.weight = y; l.bias = v[Slice{0, 2}]; return l(x)),
      HABIT("l = nn.Linear(3, 2, bias=False); l.weight.data = y; l(x).sum().backward(); l.weight.grad", nn::Linear l(3, 2, {.bias = false}); l.weight = y; l(x).sum().backward(); return l.weight.grad()),
      HABIT("e = nn.Embedding(2, 3); e.weight.data = y; e(i)", nn::Embedding e(2, 3); e.weight = y; return e(i)),
      HABIT("c = nn.Conv2d(1, 1, 2); c.weight.data.fill_(1); c.bias.data.zero_(); c(x[None, None])", nn::Conv2d c(1, 1, 2); c.weight = ones(1, 1, 2, 2); c.bias *= 0; return c(x[{kNone, kNone}])),
  });
}
// clang-format on

TEST(ModuleHabitsAsInTorch, AnOptimizersSteps) {
  expect_as_in_torch({
      HABIT("l = nn.Linear(3, 1, bias=False)\nl.weight.data = v[None].clone()\n"
            "o = torch.optim.SGD(l.parameters(), lr=0.01, momentum=0.9)\n"
            "for _ in range(5):\n  o.zero_grad()\n  F.mse_loss(l(x), torch.ones(2, 1)).backward()\n  o.step()\nl.weight", {
        nn::Linear l(3, 1, {.bias = false});
        l.weight = v[kNone];
        optim::SGD o(l.parameters(), {.lr = 0.01, .momentum = 0.9});
        for (int step = 0; step < 5; ++step) {
          o.zero_grad();
          mse_loss(l(x), ones(2, 1)).backward();
          o.step();
        }
        return l.weight;
      }),
  });
}

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
