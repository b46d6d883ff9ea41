// Training in blocked numerics (docs/numerics.md section 12) has the same weights everywhere, after 200 steps, too: a
// residual network of convolutions and a decoder of text. The weights' hashes are constants, so that machines that
// run this are compared with each other; GPUs run it where LOCKSTEP_TEST_DEVICES names them.
#include <functional>
#include <memory>

#include <gtest/gtest.h>

#include <lockstep/lockstep.h>
#include <lockstep/models/registry.h>

#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

// One block of GPT-2's shape: words and positions, causal attention, a feed-forward network, the embedding as its head.
struct Decoder : nn::Module {
  static constexpr std::int64_t kWords = 23, kLength = 12, kWidth = 32, kHeads = 2;
  nn::Embedding tokens{*this, "tokens", kWords, kWidth};
  nn::Embedding positions{*this, "positions", kLength, kWidth};
  nn::LayerNorm norm1{*this, "norm1", kWidth};
  nn::Linear qkv{*this, "qkv", kWidth, 3 * kWidth};
  nn::Linear out{*this, "out", kWidth, kWidth};
  nn::LayerNorm norm2{*this, "norm2", kWidth};
  nn::Linear up{*this, "up", kWidth, 4 * kWidth};
  nn::Linear down{*this, "down", 4 * kWidth, kWidth};

  Tensor forward(const Tensor& words) {
    Tensor x = tokens(words) + positions.weight.tensor();
    const std::int64_t batch = x.size(0);
    const Tensor all = qkv(norm1(x)).reshape({batch, kLength, 3, kHeads, kWidth / kHeads}).permute({2, 0, 3, 1, 4});
    const Tensor seen =
        scaled_dot_product_attention(all.select(0, 0), all.select(0, 1), all.select(0, 2), {.causal = true});
    x = x + out(seen.transpose(1, 2).reshape({batch, kLength, kWidth}));
    x = x + down(gelu(up(norm2(x))));
    return linear(x, tokens.weight.tensor());
  }
};

// The hash of all weights and running statistics after so many steps of AdamW.
std::uint64_t trained(nn::Module& model, Device device, int steps, const std::function<Tensor(Generator&)>& loss) {
  model.to(device);
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-3});
  Generator generator(7);
  for (int step = 0; step < steps; ++step) {
    const Tensor value = [&] {
      const Autocast cast(DType::bf16);
      const NumericsScope scope(Numerics::blocked);
      return loss(generator);
    }();
    optimizer.step(value);
  }
  return nn::state_hash(model.state_dict());
}

std::uint64_t hash_of_pictures(Device device, int steps) {
  manual_seed(1);
  const std::shared_ptr<nn::Layer> model = models::architecture("resnet8-cifar").create(10);
  return trained(*model, device, steps, [&](Generator& generator) {
    const Tensor x = randn({4, 3, 8, 8}, {}, &generator).to(device);
    const Tensor y = randint(0, 10, {4}, {.dtype = DType::i64}, &generator).to(device);
    return cross_entropy(model->forward(x), y);
  });
}

std::uint64_t text(Device device, int steps) {
  manual_seed(1);
  Decoder model;
  return trained(model, device, steps, [&](Generator& generator) {
    const Tensor words =
        randint(0, Decoder::kWords, {4, Decoder::kLength + 1}, {.dtype = DType::i64}, &generator).to(device);
    return cross_entropy(model.forward(words.narrow(1, 0, Decoder::kLength)).reshape({-1, Decoder::kWords}),
                         words.narrow(1, 1, Decoder::kLength).reshape({-1}));
  });
}

TEST(BlockedTraining, HasTheSameWeightsAfterTwoHundredSteps) {
  for (const Device& device : test_devices()) {
    if (device.kind == DeviceKind::ref) continue;  // too slow for so many steps
    EXPECT_EQ(hash_of_pictures(device, 200), 0x4985ce299e10204fULL) << device.to_string();
    EXPECT_EQ(text(device, 200), 0x69566031efe682a6ULL) << device.to_string();
  }
}

TEST(BlockedTraining, BeginsAsOnTheReference) {
  const Device ref{DeviceKind::ref, 0};
  for (const Device& device : test_devices()) {
    EXPECT_EQ(hash_of_pictures(device, 2), hash_of_pictures(ref, 2)) << device.to_string();
    EXPECT_EQ(text(device, 3), text(ref, 3)) << device.to_string();
  }
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
