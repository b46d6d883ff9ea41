// A network with one hidden layer learns the digits of MNIST, from the folder of its four idx files.
//
//   example_mlp_mnist FOLDER [epochs] [training examples] [device]
#include <lockstep/lockstep.h>

#include <cstdlib>
#include <iostream>
#include <numeric>

namespace ls = lockstep;

namespace {

struct MLP : ls::nn::Module {
  ls::nn::Linear hidden{*this, "hidden", 784, 256};
  ls::nn::Linear out{*this, "out", 256, 10};
  ls::Tensor forward(const ls::Tensor& pictures) const {
    const ls::Tensor x = pictures.to(ls::DType::f32).flatten(1) / 255.0;
    return out(ls::relu(hidden(x)));
  }
};

double accuracy(const MLP& net, ls::data::DataLoader& test) {
  const ls::NoGrad no_grad;
  std::int64_t right = 0;
  for (const ls::data::Batch& batch : test) {
    right += ls::count_nonzero(ls::argmax(net.forward(batch.input), 1) == batch.target).item<std::int64_t>();
  }
  return static_cast<double>(right) / static_cast<double>(test.dataset().size());
}

}  // namespace

int main(int count, char** arguments) try {
  if (count < 2) {
    std::cerr << "usage: example_mlp_mnist FOLDER [epochs] [training examples] [device]\n";
    return 2;
  }
  const std::uint64_t epochs = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 3;
  const ls::Device device = count > 4 ? ls::Device::parse(arguments[4]) : ls::Device::best();
  ls::manual_seed(42);

  ls::data::DatasetPtr digits = ls::data::mnist(arguments[1], ls::data::Split::train);
  if (count > 3 && std::atoll(arguments[3]) < digits->size()) {
    std::vector<std::int64_t> first(static_cast<std::size_t>(std::atoll(arguments[3])));
    std::iota(first.begin(), first.end(), 0);
    digits = std::make_shared<ls::data::Subset>(digits, first);
  }
  ls::data::DataLoader train(digits, {.batch_size = 64, .shuffle = true, .drop_last = true, .device = device});
  ls::data::DataLoader test(ls::data::mnist(arguments[1], ls::data::Split::test),
                            {.batch_size = 500, .device = device});

  MLP net;
  net.to(device);
  ls::optim::AdamW optimizer(net.parameters());
  const auto steps = static_cast<std::int64_t>(epochs) * train.batches();
  ls::optim::Schedule schedule(optimizer, ls::optim::OneCycleLR{.max_lr = 3e-3, .total_steps = steps});

  while (train.epoch() < epochs) {
    ls::Tensor loss;
    for (const ls::data::Batch& batch : train) {
      loss = ls::cross_entropy(net.forward(batch.input), batch.target);
      optimizer.step(loss);
      schedule.step();
    }
    std::cout << "epoch " << train.epoch() << ": loss " << loss.item<float>() << ", test accuracy "
              << 100 * accuracy(net, test) << " %\n";
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
