// ResNet-20 on CIFAR-10, trained as in section 4.2 of "Deep Residual Learning for Image Recognition" (He et al., 2015):
// SGD with momentum, the learning rate divided by 10 at half and at three quarters of the run, crops and flips. It
// saves a checkpoint after every epoch; started again with the same directory, it goes on from there.
//
//   example_resnet20_cifar <folder with data_batch_1.bin ...> [epochs] [directory of the run] [device]
//   example_resnet20_cifar tiny       a few steps on random pictures
#include <lockstep/lockstep.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

namespace ls = lockstep;
namespace data = ls::data;

data::DatasetPtr random_pictures(std::int64_t count) {
  const ls::Tensor pictures = ls::randint(0, 256, {count, 3, 32, 32}, {.dtype = ls::DType::u8});
  return std::make_shared<data::TensorDataset>(pictures, ls::randint(0, 10, {count}));
}

double accuracy(ls::nn::Layer& model, data::DataLoader& loader) {
  const ls::NoGrad no_grad;
  model.eval();
  std::int64_t right = 0;
  for (const data::Batch& batch : loader) {
    right += ls::sum(ls::eq(ls::argmax(model(batch.input), 1), batch.target).to(ls::DType::i64)).item<std::int64_t>();
  }
  model.train();
  return static_cast<double>(right) / static_cast<double>(loader.dataset().size());
}

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "";
  if (folder.empty()) {
    std::cerr << "usage: " << argv[0] << " <folder of CIFAR-10>|tiny [epochs] [directory of the run] [device]\n";
    return 2;
  }
  const bool tiny = folder == "tiny";
  const int epochs = argc > 2 ? std::atoi(argv[2]) : tiny ? 2 : 160;
  const std::string run = argc > 3 ? argv[3] : "";
  const ls::Device device = argc > 4 ? ls::Device::parse(argv[4]) : ls::Device::best();
  ls::manual_seed(1);

  const data::Normalize normalize{{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}};
  const auto pictures = [&](data::Split split) {
    return tiny ? random_pictures(8) : data::DatasetPtr(data::cifar10(folder, split));
  };
  const auto augmented = data::transform(pictures(data::Split::train),
                                         {data::RandomCrop{.padding = 4}, data::RandomHorizontalFlip{}, normalize});
  const std::int64_t batch_size = tiny ? 4 : 128;
  data::DataLoader train(augmented, {.batch_size = batch_size, .shuffle = true, .workers = 1, .device = device});
  data::DataLoader test(data::transform(pictures(data::Split::test), {normalize}),
                        {.batch_size = batch_size, .workers = 1, .device = device});

  const auto model = ls::models::architecture("resnet20-cifar").create(10);
  model->to(device);
  ls::optim::SGD optimizer(model->parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4});
  ls::optim::Schedule schedule(optimizer, ls::optim::LambdaLR{[epochs](std::int64_t epoch) {
                                 return 2 * epoch < epochs ? 1 : 4 * epoch < 3 * epochs ? 0.1 : 0.01;
                               }});

  std::int64_t step = 0;
  if (const auto found = run.empty() ? std::nullopt : ls::train::load_latest(run)) {
    step = found->step;
    found->restore("model", *model);
    found->restore("optimizer", optimizer);
    found->restore("schedule", schedule);
    found->restore("loader", train);
  }
  while (train.epoch() < static_cast<std::uint64_t>(epochs)) {
    const std::uint64_t epoch = train.epoch();
    ls::Tensor loss;
    for (const data::Batch& batch : train) {
      loss = ls::cross_entropy(model->forward(batch.input), batch.target);
      optimizer.step(loss);
      ++step;
    }
    schedule.step();
    std::cout << "epoch " << epoch + 1 << ": last loss " << loss.item<float>() << ", test accuracy "
              << accuracy(*model, test) << std::endl;
    if (run.empty()) continue;
    ls::train::Checkpoint checkpoint{.step = step};
    checkpoint.add("model", *model).add("optimizer", optimizer).add("schedule", schedule).add("loader", train);
    ls::train::save_checkpoint(run, checkpoint);
  }
}
