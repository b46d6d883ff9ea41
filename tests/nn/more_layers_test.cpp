// What the recorded cases of torch_test.cpp do not show: randomness, options that refuse, containers, state names.
#include <gtest/gtest.h>

#include <lockstep/autograd.h>
#include <lockstep/nn.h>
#include <lockstep/ops.h>

#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

using namespace nn;

std::vector<std::string> keys_of(const Module& module) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : module.state_dict()) keys.push_back(key);
  return keys;
}

TEST(ModuleList, NamesByPosition) {
  Module root;
  ModuleList<Layer> layers(root, "layers");
  Linear& first = layers.add<Linear>(3, 2);
  layers.add<ReLU>();
  EXPECT_EQ(layers.size(), 2u);
  EXPECT_EQ(first.path(), "layers.0");
  const Tensor x = rand({1, 3});
  EXPECT_BITS_EQ(layers[0](x), first(x));
  EXPECT_THROW(layers[2], IndexError);
  EXPECT_EQ(keys_of(root), (std::vector<std::string>{"layers.0.weight", "layers.0.bias"}));
  EXPECT_EQ(Unflatten(root, "unflatten", 1, {2, -1})(rand({3, 6})).shape(), (Shape{3, 2, 3}));
}

TEST(SwiGLU, GatesTheSecondHalf) {
  Module root;
  const Tensor x = randn({2, 6});
  EXPECT_BITS_EQ(SwiGLU(root, "a")(x), silu(x.narrow(1, 0, 3)) * x.narrow(1, 3, 3));
  EXPECT_THROW(SwiGLU(root, "b", 0)(randn({3, 2})), ShapeError);
}

TEST(DropoutLayers, DropWholeChannelsInTrainingOnly) {
  manual_seed(2);
  Module root;
  Dropout2d dropout(root, "a", 0.5);
  const Tensor x = ones({4, 8, 3, 3});
  const Tensor sums = sum(dropout(x), {2, 3});
  for (const float value : sums.to_vector<float>()) EXPECT_TRUE(value == 0 || value == 18) << value;
  EXPECT_NE(sums.hash(), sum(dropout(x), {2, 3}).hash());
  root.eval();
  EXPECT_BITS_EQ(dropout(x), x);
  EXPECT_EQ(AlphaDropout(root, "b", 0.5)(x).shape(), x.shape());
  EXPECT_THROW(Dropout1d(root, "c", -0.1), ValueError);
}

TEST(Recurrent, DropsBetweenLayersInTraining) {
  manual_seed(6);
  Module root;
  LSTM layer(root, "lstm", 3, 4, {.num_layers = 2, .dropout = 0.5, .bidirectional = true});
  EXPECT_EQ(keys_of(layer).size(), 16u);
  EXPECT_EQ(keys_of(layer)[4], "weight_ih_l0_reverse");
  const Tensor x = randn({5, 2, 3});
  const LstmState state{randn({4, 2, 4}), randn({4, 2, 4})};
  const LstmResult once = layer(x, state);
  EXPECT_EQ(once.output.shape(), (Shape{5, 2, 8}));
  EXPECT_EQ(once.cell.shape(), (Shape{4, 2, 4}));
  EXPECT_NE(once.output.hash(), layer(x, state).output.hash());
  root.eval();
  const LstmResult plain = layer(x, state);
  EXPECT_BITS_EQ(plain.output, layer(x, state).output);
  // The first layer is the same either way.
  EXPECT_BITS_EQ(plain.hidden.narrow(0, 0, 2), once.hidden.narrow(0, 0, 2));
  GRU gru(root, "gru", 3, 4, {.num_layers = 3, .dropout = 0});
  RNN rnn(root, "rnn", 3, 4, {.num_layers = 2, .batch_first = true, .dropout = 1});
  root.train();
  EXPECT_EQ(gru(x).hidden.shape(), (Shape{3, 2, 4}));
  EXPECT_EQ(rnn(randn({2, 5, 3})).output.shape(), (Shape{2, 5, 4}));
  EXPECT_THROW(GRU(root, "none", 3, 4, {.num_layers = 0}), ValueError);
  EXPECT_THROW(GRU(root, "odd", 3, 4, {.dropout = 2}), ValueError);
  EXPECT_THROW(LSTM(root, "relu", 3, 4, {.nonlinearity = RnnNonlinearity::relu}), ValueError);
}

TEST(Attention, CausalityIsAMask) {
  manual_seed(7);
  Module root;
  const MultiheadAttention layer(root, "attention", 8, 2, {.batch_first = true});
  const NoGrad no_grad;
  const Tensor x = randn({2, 5, 8});
  const Tensor later = triu(ones({5, 5}), 1).to(DType::boolean);
  const MultiheadAttentionResult masked = layer.forward(x, x, x, {.mask = later}, true);
  const MultiheadAttentionResult causal = layer.forward(x, x, x, {.causal = true}, true);
  EXPECT_BITS_EQ(causal.output, masked.output);
  EXPECT_EQ(causal.weights.select(1, 0).to_vector<float>(), (std::vector<float>{1, 0, 0, 0, 0, 1, 0, 0, 0, 0}));
  EXPECT_FALSE(layer.forward(x, x, x).weights.defined());
  EXPECT_LT(amax(abs(causal.output - layer(x, x, x, {.causal = true}))).item<float>(), 1e-6f);
  // A mask for each sample and head.
  const Tensor each = later.unsqueeze(0).expand({4, 5, 5});
  EXPECT_BITS_EQ(layer(x, x, x, {.mask = each}), layer(x, x, x, {.mask = later}));
}

TEST(Attention, QueriesWithoutKeysGiveTheBias) {
  Module root;
  MultiheadAttention layer(root, "attention", 4, 2, {.batch_first = true});
  layer.out_proj.bias.set(ones({4}));
  const Tensor x = randn({1, 3, 4});
  const Tensor all = ones({1, 3}).to(DType::boolean);
  EXPECT_BITS_EQ(layer(x, x, x, {.key_padding_mask = all}), ones({1, 3, 4}));
  EXPECT_BITS_EQ(layer.forward(x, x, x, {.key_padding_mask = all}, true).output, ones({1, 3, 4}));
}

TEST(Attention, RefusesWhatDoesNotFit) {
  Module root;
  EXPECT_THROW(MultiheadAttention(root, "a", 8, 3), ValueError);
  EXPECT_THROW(MultiheadAttention(root, "b", 8, 2, {.dropout = 2}), ValueError);
  const MultiheadAttention layer(root, "c", 8, 2);
  EXPECT_THROW(layer(rand({2, 1, 1, 8}), rand({2, 1, 8}), rand({2, 1, 8})), ShapeError);
  EXPECT_THROW(layer(rand({2, 1, 8}), rand({2, 2, 8}), rand({2, 2, 8})), ShapeError);
  EXPECT_THROW(layer(rand({2, 1, 8}), rand({2, 1, 8}), rand({2, 1, 8}), {.key_padding_mask = zeros({3, 2})}),
               ShapeError);
}

TEST(Transformer, NamesArePyTorchsAndDropoutDrawsInTraining) {
  manual_seed(8);
  Module root;
  TransformerEncoder encoder(root, "encoder", 8, 2, 2, {.layer = {.dim_feedforward = 12}, .final_norm = true});
  const std::vector<std::string> keys = keys_of(encoder);
  EXPECT_EQ(keys[0], "layers.0.self_attn.in_proj_weight");
  EXPECT_EQ(keys[2], "layers.0.self_attn.out_proj.weight");
  EXPECT_EQ(keys.back(), "norm.bias");
  const NoGrad no_grad;
  const Tensor x = randn({4, 2, 8});
  EXPECT_NE(encoder(x).hash(), encoder(x).hash());
  root.eval();
  EXPECT_BITS_EQ(encoder(x), encoder(x));
}

TEST(Embedding, PaddingIsZerosWithoutGradient) {
  Module root;
  const Embedding table(root, "table", 5, 2, {.padding_idx = -1});
  EXPECT_EQ(table.weight.tensor().select(0, 4).to_vector<float>(), (std::vector<float>{0, 0}));
  const Tensor ids = Tensor::from<std::int64_t>({4, 0, 4}, {3});
  backward(sum(table(ids)));
  EXPECT_EQ(table.weight.grad().to_vector<float>(), (std::vector<float>{1, 1, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_THROW(Embedding(root, "bad", 5, 2, {.padding_idx = 5}), IndexError);
  EXPECT_THROW(table(Tensor::from<std::int64_t>({5}, {1})).eval(), IndexError);
}

TEST(EmbeddingBag, RefusesWhatDoesNotFit) {
  Module root;
  const EmbeddingBag bag(root, "bag", 5, 2);
  const Tensor ids = Tensor::from<std::int64_t>({4, 0, 4, 1}, {2, 2});
  EXPECT_THROW(bag.forward(ids, rand({2, 2})), ValueError);
  EXPECT_THROW(bag(ids.flatten()), ShapeError);
  EXPECT_THROW(bag.bags(ids, ids), ShapeError);
  EXPECT_EQ(bag(ids.narrow(1, 0, 0)).to_vector<float>(), (std::vector<float>{0, 0, 0, 0}));
}

TEST(Convolutions, RefuseImpossibleOptions) {
  Module root;
  EXPECT_THROW(ConvTranspose1d(root, "a", 4, 6, {3}, {.groups = 4}), ValueError);
  EXPECT_THROW(ConvTranspose1d(root, "b", 4, 6, {3, 3}), ValueError);
  EXPECT_THROW(Conv2d(root, "c", 2, 2, {3}, {.auto_padding = AutoPadding::same, .padding_mode = PadMode::reflect}),
               ValueError);
}

TEST(InstanceNorm, ChecksItsInput) {
  Module root;
  const InstanceNorm2d norm(root, "norm", 3);
  const Tensor x = randn({3, 4, 5});
  EXPECT_BITS_EQ(norm(x), norm(x.unsqueeze(0)).squeeze(0));
  EXPECT_THROW(norm(randn({1, 2, 4, 5})), ShapeError);
  EXPECT_THROW(norm(randn({3, 4})), ShapeError);
}

TEST(Losses, AreTheOpsWithTheirOptions) {
  const Tensor scores = randn({3, 4});
  const Tensor classes = Tensor::from<std::int64_t>({1, 0, 3}, {3});
  const CrossEntropyLoss loss{{.label_smoothing = 0.1}};
  EXPECT_BITS_EQ(loss(scores, classes), cross_entropy(scores, classes, {.label_smoothing = 0.1}));
  EXPECT_BITS_EQ(MSELoss{}(scores, scores * 2), mse_loss(scores, scores * 2));
  EXPECT_BITS_EQ(HuberLoss{.delta = 0.5}(scores, scores * 2), huber_loss(scores, scores * 2, Reduction::mean, 0.5));
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
