// Training steps, through the public API: gradients, optimiser and all. The names are those of
// bench/peers/torch_models.py, so that compare.py can time both side by side.
#include <benchmark/benchmark.h>

#include <vector>

#include <lockstep/lockstep.h>

namespace ls = lockstep;

namespace {

struct LeNet : ls::nn::Layer {
  using ls::nn::Layer::Layer;
  ls::nn::Conv2d conv1{*this, "conv1", 1, 6, {5}, {.padding = {2}}};
  ls::nn::Conv2d conv2{*this, "conv2", 6, 16, {5}};
  ls::nn::Linear fc1{*this, "fc1", 400, 120};
  ls::nn::Linear fc2{*this, "fc2", 120, 84};
  ls::nn::Linear fc3{*this, "fc3", 84, 10};
  ls::Tensor forward(const ls::Operand& x) const override {
    ls::Tensor y = ls::max_pool2d(ls::relu(conv1(x)), 2);
    y = ls::max_pool2d(ls::relu(conv2(y)), 2);
    y = ls::relu(fc1(y.flatten(1)));
    return fc3(ls::relu(fc2(y)));
  }
};

constexpr std::int64_t kWidth = 256;
constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kVocabulary = 256;
constexpr std::int64_t kLength = 128;

struct Block : ls::nn::Layer {
  using ls::nn::Layer::Layer;
  ls::nn::LayerNorm norm1{*this, "norm1", {kWidth}};
  ls::nn::Linear qkv{*this, "qkv", kWidth, 3 * kWidth};
  ls::nn::Linear out{*this, "out", kWidth, kWidth};
  ls::nn::LayerNorm norm2{*this, "norm2", {kWidth}};
  ls::nn::Linear up{*this, "up", kWidth, 4 * kWidth};
  ls::nn::Linear down{*this, "down", 4 * kWidth, kWidth};
  ls::Tensor forward(const ls::Operand& in) const override {
    ls::Tensor x = in.tensor();
    const std::int64_t n = x.size(0);
    const ls::Tensor heads = qkv(norm1(x)).reshape({n, kLength, 3, kHeads, kWidth / kHeads}).permute({2, 0, 3, 1, 4});
    const ls::Tensor mixed = ls::scaled_dot_product_attention(heads.select(0, 0), heads.select(0, 1), heads.select(0, 2), {.causal = true});
    x = x + out(mixed.permute({0, 2, 1, 3}).reshape({n, kLength, kWidth}));
    return x + down(ls::gelu(up(norm2(x))));
  }
};

struct Transformer : ls::nn::Module {
  Transformer() {
    for (int i = 0; i < 6; ++i) blocks.add<Block>();
  }
  ls::nn::Parameter tokens{*this, "tokens", ls::randn({kVocabulary, kWidth}) * 0.02};
  ls::nn::Parameter positions{*this, "positions", ls::randn({kLength, kWidth}) * 0.02};
  ls::nn::Sequential blocks{*this, "blocks"};
  ls::nn::LayerNorm norm{*this, "norm", {kWidth}};
  ls::nn::Linear head{*this, "head", kWidth, kVocabulary, {.bias = false}};
  ls::Tensor forward(const ls::Tensor& ids) const {
    return head(norm(blocks(ls::embedding(tokens, ids) + positions)));
  }
};

void step(ls::optim::Optimizer& optimizer, const ls::Tensor& loss) {
  ls::backward(loss);
  optimizer.step();
  optimizer.zero_grad();
}

// After steps that compile kernels.
template <typename Step> void measure(benchmark::State& state, Step step) {
  for (int i = 0; i < 2; ++i) step();
  for (auto _ : state) step();
}

void train_lenet(benchmark::State& state) {
  LeNet model;
  ls::optim::SGD optimizer(model.parameters(), {.lr = 0.01, .momentum = 0.9});
  const ls::Tensor x = ls::randn({64, 1, 28, 28}).eval();
  const ls::Tensor y = ls::randint(0, 10, {64}).eval();
  measure(state, [&] { step(optimizer, ls::cross_entropy(model(x), y)); });
}
BENCHMARK(train_lenet)->Name("train_lenet_b64")->UseRealTime();

void train_resnet20(benchmark::State& state) {
  const auto model = ls::models::architecture("resnet20-cifar").create(10);
  ls::optim::SGD optimizer(model->parameters(), {.lr = 0.01, .momentum = 0.9});
  const ls::Tensor x = ls::randn({128, 3, 32, 32}).eval();
  const ls::Tensor y = ls::randint(0, 10, {128}).eval();
  measure(state, [&] { step(optimizer, ls::cross_entropy(model->forward(x), y)); });
}
BENCHMARK(train_resnet20)->Name("train_resnet20_b128")->UseRealTime();

// Pictures so small that recording, planning and launching are what takes time.
void host_resnet20(benchmark::State& state) {
  const auto model = ls::models::architecture("resnet20-cifar").create(10);
  ls::optim::SGD optimizer(model->parameters(), {.lr = 0.01, .momentum = 0.9});
  const ls::Tensor x = ls::randn({2, 3, 8, 8}).eval();
  const ls::Tensor y = ls::randint(0, 10, {2}).eval();
  measure(state, [&] { step(optimizer, ls::cross_entropy(model->forward(x), y)); });
}
BENCHMARK(host_resnet20)->Name("host_resnet20_step");

void train_transformer(benchmark::State& state) {
  Transformer model;
  ls::optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
  const ls::Tensor ids = ls::randint(0, kVocabulary, {16, kLength}).eval();
  const ls::Tensor next = ls::randint(0, kVocabulary, {16 * kLength}).eval();
  measure(state, [&] {
    step(optimizer, ls::cross_entropy(model.forward(ids).reshape({16 * kLength, kVocabulary}), next));
  });
}
BENCHMARK(train_transformer)->Name("train_transformer_16x128")->UseRealTime();

}  // namespace
