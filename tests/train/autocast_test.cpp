// Training in a scope of Autocast: residuals, norms and attention work unchanged, parameters stay f32.
#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

struct Residual : nn::Module {
  nn::Conv2d first{*this, "first", 1, 6, 3, {.padding = 1}};
  nn::BatchNorm2d norm{*this, "norm", 6};
  nn::Conv2d second{*this, "second", 6, 6, 3, {.padding = 1}};
  nn::Linear out{*this, "out", 6, 4};
  Tensor forward(const Tensor& x) {
    const Tensor y = relu(norm(first(x)));
    return out(mean(y + second(y), {2, 3}));
  }
};

TEST(AutocastTraining, LearnsInBothTypesAndKeepsParametersInF32) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const auto run = [&](Device device) {
      manual_seed(2);
      Residual net;
      net.to(device);
      optim::Adam optimizer(net.parameters(), {.lr = 0.02});
      optim::GradScaler scaler({.init_scale = 1024, .enabled = dtype == DType::f16});
      const Tensor y = (arange(0, 16, 1, {.dtype = DType::i64}) % 4).to(device);
      const Tensor x = randn({16, 1, 6, 6}).to(device) * 0.3 + y.to(DType::f32).reshape({16, 1, 1, 1});
      std::vector<Tensor> losses;
      for (int step = 0; step < 12; ++step) {
        Tensor loss;
        {
          const Autocast scope(dtype);
          const Tensor scores = net.forward(x);
          EXPECT_EQ(scores.dtype(), dtype);
          loss = cross_entropy(scores, y);
        }
        EXPECT_EQ(loss.dtype(), DType::f32);
        losses.push_back(detach(loss));
        EXPECT_TRUE(scaler.step(optimizer, loss));
      }
      for (const auto& [name, tensor] : net.state_dict()) {
        EXPECT_TRUE(!is_float(tensor.dtype()) || tensor.dtype() == DType::f32) << name;
      }
      return stack(losses);
    };
    const auto losses = same_everywhere(run).to_vector<float>();
    EXPECT_LT(losses.back(), 0.7f * losses.front());
  }
}

TEST(AutocastTraining, FitInAScopeEqualsALoopOfOnesOwn) {
  const Tensor x = random_tensor({16, 5}, DType::f32, 1);
  const Tensor y = arange(0, 16, 1, {.dtype = DType::i64}) % 2;
  const auto weights = [&](bool by_fit) {
    manual_seed(3);
    nn::Linear net(5, 2);
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    data::DataLoader loader(std::make_shared<data::TensorDataset>(x, y), {.batch_size = 4});
    if (by_fit) {
      const Autocast scope(DType::bf16);
      train::fit(net, optimizer, loader, {.progress = false});
    } else {
      for (const data::Batch& batch : loader) {
        const Tensor scores =
            linear(batch.input.to(DType::bf16), net.weight.tensor().to(DType::bf16), net.bias.tensor().to(DType::bf16));
        optimizer.step(cross_entropy(scores.to(DType::f32), batch.target));
      }
    }
    return detach(net.weight);
  };
  EXPECT_BITS_EQ(weights(true), weights(false));
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
