// A linear regression whose model and data were given "their own" device, each by a handle of its own. In the framework
// where this comes from, `pred + y` on two handles of one GPU silently returned `pred`, and nothing was learned. Here
// devices are values: equal ones are one device, and different ones are an error that says what to do.
//
//   example_regression_bot [device] [steps]
#include <lockstep/lockstep.h>

#include <cmath>
#include <cstdlib>
#include <iostream>

namespace ls = lockstep;

int main(int count, char** arguments) try {
  const std::string name = count > 1 ? arguments[1] : "cpu";
  const int steps = count > 2 ? std::atoi(arguments[2]) : 200;
  const ls::Device models = ls::Device::parse(name);
  const ls::Device data = ls::Device::parse(name);

  // y = 3 a - 2 b + 0.5, and a little noise.
  ls::manual_seed(42);
  const ls::Tensor x = ls::randn({256, 2}, {.device = data});
  const ls::Tensor truth = ls::Tensor::from<float>({3, -2}, {1, 2}, data);
  const ls::Tensor y = ls::linear(x, truth) + 0.5 + ls::randn({256, 1}, {.device = data}) * 0.01;

  struct Bot : ls::nn::Module {
    ls::nn::Linear line{*this, "line", 2, 1};
  } bot;
  bot.to(models);

  // The incident: it must not be `pred`.
  {
    const ls::NoGrad no_grad;
    const ls::Tensor pred = bot.line(x);
    if ((pred + y).hash() == pred.hash()) throw std::logic_error("pred + y is pred");
  }

  ls::optim::SGD optimizer(bot.parameters(), {.lr = 0.1});
  for (int step = 0; step < steps; ++step) {
    const ls::Tensor loss = ls::mean(ls::square(bot.line(x) - y));
    optimizer.step(loss);
    if (step % 50 == 0) std::cout << "step " << step << ": loss " << loss.item<float>() << '\n';
  }

  const std::vector<float> weight = bot.line.weight.tensor().to(ls::Device{}).to_vector<float>();
  const float bias = bot.line.bias.tensor().item<float>();
  std::cout << "y = " << weight[0] << " a + " << weight[1] << " b + " << bias << '\n';
  const bool learned =
      std::abs(weight[0] - 3) < 0.01f && std::abs(weight[1] + 2) < 0.01f && std::abs(bias - 0.5f) < 0.01f;
  return learned ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
