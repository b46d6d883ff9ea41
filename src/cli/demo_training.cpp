// The second part of `lockstep demo`: a network that is trained here, and the same first steps on every device.
#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <span>

#include <lockstep/autograd.h>
#include <lockstep/data.h>
#include <lockstep/models/lenet.h>
#include <lockstep/optim.h>

#include "cli/demo.h"
#include "core/hash.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

constexpr std::int64_t kTrainDigits = 8000;
constexpr std::int64_t kDemoTestDigits = 2000;
constexpr std::int64_t kEpochs = 4;
constexpr std::int64_t kBatch = 64;
constexpr double kLearningRate = 4e-3;
constexpr std::uint64_t kSeed = 1;

const data::Normalize kNormalize{{0.2f}, {0.25f}};

io::Image picture_of(const data::DigitImages& digits, std::size_t index) {
  constexpr auto kPixels = static_cast<std::size_t>(data::DigitImages::kPixels);
  io::Image image{.width = data::DigitImages::kSide, .height = data::DigitImages::kSide};
  for (std::size_t i = 0; i < kPixels; ++i)
    image.pixels.insert(image.pixels.end(), 3, digits.pixels[index * kPixels + i]);
  return image;
}

// Wrong answers first, so that they are seen, then one of each digit.
std::vector<Digit> some_digits(const nn::Layer& model, const data::DatasetPtr& test) {
  constexpr std::size_t kLooked = 1000;
  constexpr std::size_t kShown = 20;
  constexpr std::size_t kWrong = 10;
  const data::DigitImages images = data::draw_digits(kLooked, kSeed + 1);
  std::vector<std::int64_t> indices(kLooked);
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  const NoGrad no_grad;
  const Tensor probabilities = softmax(model.forward(test->fetch({.indices = indices}).input), 1);
  const std::vector<std::int64_t> answers = argmax(probabilities, 1).to_vector<std::int64_t>();
  const std::vector<float> best = amax(probabilities, {1}).to_vector<float>();
  std::vector<Digit> wrong;
  std::vector<Digit> right;
  for (std::size_t i = 0; i < kLooked; ++i) {
    const Digit digit{.image = picture_of(images, i),
                      .truth = images.labels[i],
                      .answer = static_cast<std::size_t>(answers[i]),
                      .probability = best[i]};
    std::vector<Digit>& list = digit.answer == digit.truth ? right : wrong;
    if (list.size() < (digit.answer == digit.truth ? kShown : kWrong)) list.push_back(digit);
  }
  for (std::size_t i = 0; wrong.size() < kShown && i < right.size(); ++i) wrong.push_back(right[i]);
  return wrong;
}

}  // namespace

TrainingDemo train_on_digits(const TrainingOptions& options) {
  const data::DatasetPtr train = data::transform(data::digits(kTrainDigits, kSeed), {kNormalize});
  const data::DatasetPtr test = data::transform(data::digits(kDemoTestDigits, kSeed + 1), {kNormalize});
  data::DataLoader loader(train, {.batch_size = kBatch, .shuffle = true, .seed = kSeed, .drop_last = true});
  data::DataLoader test_loader(test, {.batch_size = 250});
  manual_seed(kSeed);
  models::LeNet model(10);
  optim::Adam optimizer(model.parameters());
  optim::Schedule schedule(optimizer,
                           optim::OneCycleLR{.max_lr = kLearningRate, .total_steps = kEpochs * loader.batches()});
  TrainingDemo demo{.parameters = model.parameter_count(), .examples = kTrainDigits};
  demo.fit = train::fit(model, optimizer, loader,
                        {.epochs = kEpochs,
                         .max_steps = options.steps,
                         .schedule = &schedule,
                         .test = &test_loader,
                         .progress = options.progress});
  model.eval();
  demo.digits = some_digits(model, test);
  demo.weights_hash = nn::state_hash(model.state_dict());
  return demo;
}

ComparedTraining first_steps_on(Device device) {
  const WorkCounter work(device);
  const auto start = std::chrono::steady_clock::now();
  const data::DatasetPtr train = data::transform(data::digits(kComparedSteps * kComparedBatch, kSeed), {kNormalize});
  data::DataLoader loader(train, {.batch_size = kComparedBatch, .shuffle = true, .seed = kSeed, .device = device});
  manual_seed(kSeed);
  models::LeNet model(10);
  model.to(device);
  optim::Adam optimizer(model.parameters(), {.lr = kLearningRate});
  const train::FitResult fit = train::fit(model, optimizer, loader, {.progress = false});
  ElementHasher losses(DType::f64);
  for (const train::Record& record : fit.records) losses.update(std::as_bytes(std::span(&record.loss, 1)));
  return {.device = device,
          .loss = static_cast<float>(fit.records.back().loss),
          .losses_hash = losses.digest(),
          .weights_hash = nn::state_hash(model.state_dict()),
          .work = work.count(),
          .seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
