// What an error in a layer names: the layer's op, and the line that called the layer or the model made of it.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include <fmt/format.h>

#include <lockstep/lockstep.h>

#include "support/files.h"
#include "support/tensors.h"

namespace lockstep::nn {
namespace {

using lockstep::test::message_of;

struct Case {
  const char* op;
  int line;
  std::function<void()> call;
};

void expect_sites(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const std::string message = message_of<Error>(c.call);
    EXPECT_TRUE(message.starts_with(fmt::format("{}: ", c.op))) << message;
    EXPECT_TRUE(message.ends_with(fmt::format("call_sites_test.cpp:{}", c.line))) << c.op << "\n" << message;
    EXPECT_EQ(CallScope::current(), nullptr);
  }
}

TEST(LayerCallSites, AreTheCallersOfTheLayer) {
  Module root;
  Linear linear(root, "linear", 4, 2);
  Conv2d conv(root, "conv", 3, 4, {3}, {.padding = {1}, .padding_mode = PadMode::reflect});
  BatchNorm2d batch_norm(root, "batch_norm", 3);
  LayerNorm layer_norm(root, "layer_norm", {5});
  Embedding embedding(root, "embedding", 7, 4);
  EmbeddingBag bag(root, "bag", 7, 4);
  LSTM lstm(root, "lstm", 4, 3, {.num_layers = 2, .dropout = 0.5});
  MultiheadAttention attention(root, "attention", 8, 2);
  SwiGLU gate(root, "gate");
  const Tensor wrong = ones({2, 3, 9});
  // clang-format off
  expect_sites({
      {"linear", __LINE__, [&] { linear(wrong); }},
      {"conv2d", __LINE__, [&] { conv(ones({1, 4, 8, 8})); }},
      {"conv2d", __LINE__, [&] { conv(Tensor()); }},
      {"batch_norm", __LINE__, [&] { batch_norm(wrong); }},
      {"layer_norm", __LINE__, [&] { layer_norm(wrong); }},
      {"embedding", __LINE__, [&] { embedding(Tensor::from<std::int64_t>({7}, {1})).eval(); }},
      {"EmbeddingBag", __LINE__, [&] { bag(Tensor::from<std::int64_t>({7}, {1})); }},
      {"lstm", __LINE__, [&] { lstm(wrong); }},
      {"MultiheadAttention", __LINE__, [&] { attention(wrong, wrong, wrong); }},
      {"SwiGLU", __LINE__, [&] { gate(wrong); }},
  });
  // clang-format on
}

TEST(LayerCallSites, WithinContainersAreTheCallersOfTheContainer) {
  Module root;
  Sequential layers(root, "layers");
  layers.add<Linear>(4, 3);
  layers.add<ReLU>();
  layers.add<Linear>(5, 2);
  TransformerEncoder encoder(root, "encoder", 8, 2, 2);
  models::MLP mlp(3, 4);
  models::CifarResNet resnet(10, 20);
  // clang-format off
  expect_sites({
      {"linear", __LINE__, [&] { layers(ones({2, 4})); }},
      {"Sequential", __LINE__, [&] { layers(2.0); }},
      {"MultiheadAttention", __LINE__, [&] { encoder(ones({2, 3, 9})); }},
      {"TransformerEncoder", __LINE__, [&] { encoder(Tensor()); }},
      {"linear", __LINE__, [&] { mlp.forward(ones({2, 5})); }},
      {"conv2d", __LINE__, [&] { resnet(ones({1, 4, 32, 32})); }},
  });
  // clang-format on
}

// A user's layer in a container: its ops are on lines of its own.
class Doubled : public Layer {
 public:
  using Layer::Layer;
  Tensor forward(const Operand& x) const override {
    line = __LINE__ + 1;
    return lockstep::add(x.tensor(), ones({5}));
  }
  mutable int line = 0;
};

TEST(LayerCallSites, InAUsersLayerAreItsOwn) {
  Module root;
  Sequential layers(root, "layers");
  const Doubled& doubled = layers.add<Doubled>();
  const std::string message = message_of<ShapeError>([&] { layers(ones({2, 4})); });
  EXPECT_TRUE(message.starts_with("add: ")) << message;
  EXPECT_TRUE(message.ends_with(fmt::format("call_sites_test.cpp:{}", doubled.line))) << message;
}

TEST(LayerCallSites, OfANaNInALayerAreTheCallers) {
  Module root;
  LayerNorm norm(root, "norm", {3}, {.eps = -2});
  const CheckFinite scope;
  const int line = __LINE__ + 1;
  const std::string message = message_of<ValueError>([&] { norm(ones({2, 3})); });
  EXPECT_TRUE(message.starts_with("layer_norm: in its rsqrt the result holds NaN")) << message;
  EXPECT_TRUE(message.ends_with(fmt::format("call_sites_test.cpp:{}", line))) << message;
}

TEST(LayerCallSites, OfWhatModulesDoAreTheCallers) {
  Module root;
  Linear linear(root, "linear", 4, 2);
  // clang-format off
  expect_sites({
      {"load_state_dict", __LINE__, [&] { root.load_state_dict({}); }},
      {"Module::to", __LINE__, [&] { root.to(DType::i32); }},
      {"set", __LINE__, [&] { linear.weight.set(ones({3})); }},
      {"set_grad", __LINE__, [&] { linear.weight.set_grad(ones({3})); }},
      {"kaiming_uniform", __LINE__, [&] { init::kaiming_uniform({4}); }},
  });
  // clang-format on
}

}  // namespace
}  // namespace lockstep::nn
