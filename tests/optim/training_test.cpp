// Whole trainings against recorded ones: MNIST, batches in the order of the file, from recorded first weights.
#include <lockstep/data.h>

#include "optim/cases.h"

namespace lockstep {
namespace {

using test::expect_near;

struct MLP : nn::Module {
  nn::Linear fc1{*this, "fc1", 784, 128};
  nn::Linear fc2{*this, "fc2", 128, 10};
  Tensor forward(const Tensor& x) const { return fc2(relu(fc1(x.flatten(1)))); }
};

struct CNN : nn::Module {
  nn::Conv2d conv1{*this, "conv1", 1, 8, {5}};
  nn::Conv2d conv2{*this, "conv2", 8, 16, {5}};
  nn::Linear fc1{*this, "fc1", 256, 64};
  nn::Linear fc2{*this, "fc2", 64, 10};
  Tensor forward(const Tensor& x) const {
    const Tensor low = max_pool2d(relu(conv1(x)), 2);
    const Tensor high = max_pool2d(relu(conv2(low)), 2);
    return fc2(relu(fc1(high.flatten(1))));
  }
};

template <typename Net>
void expect_recorded_run(const std::string& name, std::int64_t batch, int steps, const test::MakeOptimizer& make) {
  const auto folder = test::test_data("mnist");
  LOCKSTEP_REQUIRE_DATA(folder / (name + ".safetensors"));
  const nn::StateDict::Map run = io::load_safetensors((folder / (name + ".safetensors")).string()).tensors;
  const auto digits = data::mnist(folder.string(), data::Split::train);
  Net net;
  nn::StateDict start;
  for (const auto& [key, tensor] : run) {
    if (key.starts_with("init.")) start.push_back(key.substr(5), tensor);
  }
  net.load_state_dict(start);
  const auto optimizer = make(net.parameters());
  const std::vector<double> losses = run.at("losses_f64").to_vector<double>();
  const auto compare = [&](const std::string& prefix, const auto& value) {
    for (const auto& [key, parameter] : net.named_parameters()) {
      if (const auto found = run.find(prefix + key); found != run.end()) {
        expect_near(value(parameter), found->second, 2e-5, prefix + key);
      }
    }
  };
  for (int step = 1; step <= steps; ++step) {
    const std::int64_t first = (step - 1) * batch;
    const Tensor x = (digits->input().narrow(0, first, batch).to(DType::f32) / 255.0 - 0.1307) / 0.3081;
    const Tensor loss = cross_entropy(net.forward(x), digits->target().narrow(0, first, batch));
    optimizer->zero_grad();
    backward(loss);
    if (step == 1) compare("grad_step1.", [](const nn::Parameter& parameter) { return parameter.grad(); });
    optimizer->step();
    EXPECT_NEAR(loss.item<float>(), losses[static_cast<std::size_t>(step - 1)], 1e-5) << name << " step " << step;
    if (step == 1 || step == 10) {
      compare("after_step" + std::to_string(step) + ".",
              [](const nn::Parameter& parameter) { return parameter.tensor(); });
    }
  }
}

TEST(Training, AnMLPWithMomentumFollowsTheRecordedRunSlow) {
  expect_recorded_run<MLP>("train_mlp_sgd", 64, 20,
                           test::maker<optim::SGD>(optim::SGDOptions{.lr = 0.05, .momentum = 0.9}));
}

TEST(Training, ACNNWithAdamFollowsTheRecordedRunSlow) {
  expect_recorded_run<CNN>("train_cnn_adam", 64, 12, test::maker<optim::Adam>(optim::AdamOptions{.lr = 1e-3}));
}

TEST(Training, ACNNWithMomentumAndDecayFollowsTheRecordedRunSlow) {
  expect_recorded_run<CNN>(
      "train_cnn_sgd_epoch", 100, 12,
      test::maker<optim::SGD>(optim::SGDOptions{.lr = 0.02, .momentum = 0.9, .weight_decay = 1e-4}));
}

}  // namespace
}  // namespace lockstep
