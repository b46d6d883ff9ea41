// The training loop: it learns, stops, measures, and goes on from a checkpoint to the same bits.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include <lockstep/lockstep.h>

#include "support/files.h"
#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

using train::Record;

// Two clouds of points that a line separates.
data::DatasetPtr clouds(std::int64_t count) {
  Generator generator(7);
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(i % 2);
  const Tensor classes = Tensor::from(labels, {count});
  const Tensor noise = randn({count, 4}, {}, &generator);
  return std::make_shared<data::TensorDataset>(noise + 2 * classes.to(DType::f32).unsqueeze(1), classes);
}

struct Net : nn::Layer {
  nn::Linear hidden{*this, "hidden", 4, 8};
  nn::Dropout dropout{*this, "dropout", 0.25};
  nn::Linear out{*this, "out", 8, 2};
  Tensor forward(const Operand& x) const override { return out(dropout(relu(hidden(x)))); }
};

// Everything of one run; the same seed, the same bits.
struct Training {
  explicit Training(Device device = {})
      : loader(clouds(64), {.batch_size = 8, .shuffle = true, .seed = 3, .device = device}) {
    manual_seed(5);
    net.emplace();
    net->to(device);
    optimizer.emplace(net->parameters(), optim::AdamOptions{.lr = 0.05});
    schedule.emplace(*optimizer, optim::ExponentialLR{0.95});
  }
  train::FitResult fit(train::FitOptions options) {
    options.schedule = &*schedule;
    options.progress = false;
    return train::fit(*net, *optimizer, loader, options);
  }
  std::vector<std::uint64_t> hashes() const {
    std::vector<std::uint64_t> result;
    for (const auto& [name, tensor] : net->state_dict()) result.push_back(tensor.hash());
    return result;
  }

  data::DataLoader loader;
  std::optional<Net> net;
  std::optional<optim::Adam> optimizer;
  std::optional<optim::Schedule> schedule;
};

TEST(Fit, LearnsAndRecordsEveryStepAndEpoch) {
  Training run;
  data::DataLoader test(clouds(50), {.batch_size = 20});
  const train::FitResult result = run.fit({.epochs = 3, .test = &test});
  EXPECT_EQ(result.steps, 24);
  ASSERT_EQ(result.records.size(), 27u);
  EXPECT_EQ(result.records.front().step, 1);
  EXPECT_EQ(result.records.front().epoch, 1);
  EXPECT_EQ(result.records.front().lr, 0.05);
  EXPECT_LT(result.records[23].lr, 0.05);
  EXPECT_EQ(result.records.back().split, "test");
  EXPECT_EQ(result.records.back().step, 24);
  EXPECT_EQ(result.test.examples, 50);
  EXPECT_GT(result.test.accuracy, 0.9);
  EXPECT_LT(result.test.loss, result.records.front().loss);
}

// The same network as a module of one's own, in PyTorch's way, and one whose forward takes more.
struct PlainNet : nn::Module {
  nn::Linear hidden{*this, "hidden", 4, 8};
  nn::Dropout dropout{*this, "dropout", 0.25};
  nn::Linear out{*this, "out", 8, 2};
  Tensor forward(Tensor x) { return out(dropout(relu(hidden(x)))); }
};
struct ScaledNet : nn::Module {
  nn::Linear hidden{*this, "hidden", 4, 8};
  nn::Dropout dropout{*this, "dropout", 0.25};
  nn::Linear out{*this, "out", 8, 2};
  Tensor forward(const Tensor& x, double scale) const { return out(dropout(relu(hidden(x * scale)))); }
};
static_assert(train::Forwarding<PlainNet> && train::Forwarding<Net> && !train::Forwarding<ScaledNet>);

TEST(Fit, TakesAnyModuleWithAForward) {
  Training expected;
  const train::FitResult result = expected.fit({.epochs = 2});
  const auto hashes_of = [](const nn::Module& module) {
    std::vector<std::uint64_t> hashes;
    for (const auto& [name, tensor] : module.state_dict()) hashes.push_back(tensor.hash());
    return hashes;
  };
  const auto fitted = [&](auto& net, const train::Model& model) {
    data::DataLoader loader(clouds(64), {.batch_size = 8, .shuffle = true, .seed = 3});
    optim::Adam optimizer(net.parameters(), {.lr = 0.05});
    optim::Schedule schedule(optimizer, optim::ExponentialLR{0.95});
    const test::TemporaryFolder folder;
    train::FitOptions options{.epochs = 1, .schedule = &schedule, .checkpoints = folder.path("run"), .progress = false};
    train::fit(model, optimizer, loader, options);
    options.epochs = 2;
    options.resume = true;
    const train::FitResult found = train::fit(model, optimizer, loader, options);
    EXPECT_EQ(found.resumed_at, 8);
    EXPECT_EQ(found.records.back().loss, result.records.back().loss);
  };
  manual_seed(5);
  PlainNet plain;
  fitted(plain, plain);
  EXPECT_EQ(hashes_of(plain), expected.hashes());

  manual_seed(5);
  ScaledNet scaled;
  const train::Model model(scaled, [&](const Tensor& x) { return scaled.forward(x, 1); });
  fitted(scaled, model);
  EXPECT_EQ(hashes_of(scaled), expected.hashes());

  data::DataLoader test(clouds(50), {.batch_size = 20});
  EXPECT_EQ(train::evaluate(plain, test).loss, train::evaluate(*expected.net, test).loss);
  EXPECT_TRUE(plain.training());
}

TEST(Fit, ComputesInItsNumericsAndRefusesCheckpointsOfOthers) {
  const test::TemporaryFolder folder;
  train::FitOptions options{.epochs = 1,
                            .autocast = DType::bf16,
                            .numerics = Numerics::blocked,
                            .checkpoints = folder.path("run"),
                            .progress = false};
  Training run;
  run.fit(options);
  const auto in_scopes = [](Numerics numerics) {
    Training same;
    const Autocast cast(DType::bf16);
    const NumericsScope scope(numerics);
    same.fit({.epochs = 1});
    return same.hashes();
  };
  EXPECT_EQ(run.hashes(), in_scopes(Numerics::blocked));
  EXPECT_NE(run.hashes(), in_scopes(Numerics::exact));

  options.epochs = 2;
  options.resume = true;
  Training again;
  EXPECT_EQ(again.fit(options).resumed_at, 8);
  options.numerics = Numerics::exact;
  expect_error<ValueError>([&] { Training().fit(options); }, {"bf16 blocked", "bf16 exact"});
  options = {.autocast = DType::bf16, .numerics = Numerics::fast, .checkpoints = folder.path("fast")};
  expect_error<DeviceError>([&] { Training().fit(options); },
                            {"fast numerics on ", "CUDA"});  // before anything is done
  EXPECT_FALSE(std::filesystem::exists(folder.path("fast")));
  EXPECT_EQ(current_numerics(), Numerics::exact);
  options = {.autocast = DType::f16};
  expect_error<ValueError>([&] { Training().fit(options); }, {"f16", "GradScaler"});
}

TEST(Fit, StopsAfterTheStepsOrWhenItIsTold) {
  EXPECT_EQ(Training().fit({.epochs = 3, .max_steps = 11}).steps, 11);
  std::int64_t seen = 0;
  EXPECT_EQ(Training().fit({.epochs = 3, .on_record = [&](const Record&) { return ++seen < 5; }}).steps, 5);
}

TEST(Fit, AStopSavesAfterTheStepAndWritesNoTest) {
  const test::TemporaryFolder folder;
  int asked = 0;
  const train::FitResult stopped =
      Training().fit({.epochs = 3, .checkpoints = folder.path("run"), .stop = [&] { return ++asked == 5; }});
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(stopped.steps, 5);
  EXPECT_EQ(stopped.records.size(), 5u);
  Training continued;
  const train::FitResult rest = continued.fit({.epochs = 3, .checkpoints = folder.path("run"), .resume = true});
  EXPECT_FALSE(rest.stopped);
  EXPECT_EQ(rest.resumed_at, 5);
  Training whole;
  EXPECT_EQ(whole.fit({.epochs = 3}).steps, rest.steps);
  EXPECT_EQ(continued.hashes(), whole.hashes());
  // At the end of a run there is nothing to stop.
  EXPECT_FALSE(Training().fit({.max_steps = 1, .stop = [] { return true; }}).stopped);
}

TEST(Fit, IsTheSameOnEveryDeviceAndForAnyThreads) {
  Training expected;
  expected.fit({.max_steps = 6});
  for (const Device& device : test_devices()) {
    Training run(device);
    run.fit({.max_steps = 6});
    EXPECT_EQ(run.hashes(), expected.hashes()) << device.to_string();
  }
  const int threads = num_threads();
  set_num_threads(threads == 1 ? 2 : 1);
  Training other;
  other.fit({.max_steps = 6});
  set_num_threads(threads);
  EXPECT_EQ(other.hashes(), expected.hashes());
}

TEST(Fit, GoesOnToTheSameBits) {
  Training whole;
  const train::FitResult all = whole.fit({.epochs = 2});
  // Stopped within an epoch, at its end, and after everything; resumed by objects that know nothing of the first.
  for (const std::int64_t stop : {1, 3, 8, 12, 16}) {
    const test::TemporaryFolder folder;
    const std::string path = folder.path("run");
    Training first;
    first.fit({.epochs = 2, .max_steps = stop, .checkpoints = path});
    Training second;
    manual_seed(99);
    const train::FitResult rest = second.fit({.epochs = 2, .checkpoints = path, .resume = true});
    EXPECT_EQ(rest.resumed_at, stop);
    EXPECT_EQ(rest.steps, 16);
    EXPECT_EQ(second.hashes(), whole.hashes()) << stop;
    for (std::size_t i = 0; i < rest.records.size(); ++i) {
      EXPECT_EQ(rest.records[i].loss, all.records[static_cast<std::size_t>(stop) + i].loss);
      EXPECT_EQ(rest.records[i].lr, all.records[static_cast<std::size_t>(stop) + i].lr);
    }
  }
}

TEST(Fit, ResumesWhereThereIsNothingByStarting) {
  const test::TemporaryFolder folder;
  Training run;
  EXPECT_EQ(run.fit({.checkpoints = folder.path("none"), .resume = true}).resumed_at, 0);
  EXPECT_EQ(train::list_checkpoints(folder.path("none")).size(), 1u);
}

TEST(Fit, WritesCheckpointsEverySoManySteps) {
  const test::TemporaryFolder folder;
  Training run;
  run.fit(
      {.epochs = 2, .max_steps = 11, .checkpoints = folder.path("run"), .checkpoint_every = 4, .keep_checkpoints = 0});
  const std::vector<std::string> paths = train::list_checkpoints(folder.path("run"));
  ASSERT_EQ(paths.size(), 3u);
  EXPECT_EQ(train::load_checkpoint(paths[0]).step, 4);
  EXPECT_EQ(train::load_checkpoint(paths[2]).step, 11);
}

TEST(Fit, RefusesTheCheckpointOfAnotherRun) {
  const test::TemporaryFolder folder;
  Training().fit({.max_steps = 1, .checkpoints = folder.path("run"), .run = "lenet on mnist"});
  Training other;
  expect_error<ValueError>(
      [&] { other.fit({.checkpoints = folder.path("run"), .resume = true, .run = "mlp on mnist"}); },
      {"lenet on mnist", "mlp on mnist"});
}

TEST(Fit, ALossThatIsNotFiniteNamesTheStepAndIsNotSaved) {
  const test::TemporaryFolder folder;
  Training run;
  std::int64_t steps = 0;
  const train::Loss loss = [&](const Tensor& output, const Tensor& target) {
    const Tensor value = cross_entropy(output, target);
    return ++steps == 5 ? value * std::nan("") : value;
  };
  expect_error<ValueError>([&] { run.fit({.loss = loss, .checkpoints = folder.path("run"), .checkpoint_every = 2}); },
                           {"step 5", "epoch 1", "nan", "of step 4", "fix: "});
  EXPECT_EQ(train::load_latest(folder.path("run"))->step, 4);
}

TEST(Fit, RefusesOptionsOutOfRange) {
  EXPECT_THROW(Training().fit({.epochs = 0}), ValueError);
  EXPECT_THROW(Training().fit({.max_steps = -1}), ValueError);
  EXPECT_THROW(Training().fit({.checkpoint_every = -1}), ValueError);
}

TEST(Fit, RegressionHasALossAndNoAccuracy) {
  const Tensor x = Tensor::from<float>({0, 1, 2, 3}, {4, 1});
  data::DataLoader loader(std::make_shared<data::TensorDataset>(x, x * 2.0f), {.batch_size = 2});
  struct Line : nn::Layer {
    nn::Linear line{*this, "line", 1, 1};
    Tensor forward(const Operand& in) const override { return line(in); }
  } net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.05});
  const train::FitResult result =
      train::fit(net, optimizer, loader,
                 {.epochs = 2,
                  .loss = [](const Tensor& output, const Tensor& target) { return mse_loss(output, target); },
                  .progress = false});
  EXPECT_TRUE(std::isnan(result.records.back().accuracy));
  EXPECT_FALSE(std::isnan(result.records.back().loss));
}

// --- measuring ------------------------------------------------------------------------------------------------------

TEST(Accuracy, IsThePartThatIsRight) {
  const Tensor scores = Tensor::from<float>({1, 0, 0, 1, 1, 0, 0, 1}, {4, 2});
  EXPECT_EQ(train::accuracy(scores, Tensor::from<std::int64_t>({0, 1, 1, 1}, {4})).item<float>(), 0.75f);
  EXPECT_EQ(train::accuracy(scores, Tensor::from<std::int32_t>({1, 0, 1, 0}, {4})).item<float>(), 0.0f);
}

TEST(Evaluate, WeighsExamplesAlikeAndRestoresTheMode) {
  Training run;
  data::DataLoader by_one(clouds(30), {.batch_size = 30});
  data::DataLoader ragged(clouds(30), {.batch_size = 7});
  const train::Evaluation whole = train::evaluate(*run.net, by_one);
  const train::Evaluation pieces = train::evaluate(*run.net, ragged);
  EXPECT_EQ(pieces.examples, 30);
  EXPECT_EQ(pieces.accuracy, whole.accuracy);
  EXPECT_NEAR(pieces.loss, whole.loss, 1e-6);
  EXPECT_TRUE(run.net->training());
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
