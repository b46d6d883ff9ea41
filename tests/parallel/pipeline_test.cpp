// The same weights for any number of stages, to the bit: those of a Parallel of one rank.
#include <lockstep/pipeline.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/autograd.h>
#include <lockstep/check.h>
#include <lockstep/data.h>
#include <lockstep/nn.h>
#include <lockstep/ops.h>
#include <lockstep/optim.h>
#include <lockstep/parallel.h>
#include <lockstep/random.h>
#include <lockstep/train/checkpoint.h>

#include "support/files.h"
#include "support/ranks.h"

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace {

using test::expect_success;
using test::run_ranks;
using ::testing::HasSubstr;

// x + drop(linear(x)): reads its input twice, draws, and has a parameter that nobody reads.
struct Residual : nn::Layer {
  nn::Linear inner{*this, "inner", 12, 12};
  nn::Parameter unused{*this, "unused", ones({3})};
  using Layer::Layer;
  Tensor forward(const Operand& x) const override {
    const Tensor value = tensor_operand(x);
    return value + dropout(tanh(inner(value)), 0.3, true);
  }
};

struct Flat : nn::Layer {
  using Layer::Layer;
  Tensor forward(const Operand& x) const override { return tensor_operand(x).flatten(1); }
};

void fill(nn::Sequential& net) {
  net.add<nn::Conv2d>(1, 3, 3);
  net.add<nn::BatchNorm2d>(3);
  net.add<Flat>();
  net.add<Residual>();
  net.add<Residual>();
  net.add<nn::Linear>(12, 500);  // more than a chunk of the norm
  net.add<nn::Linear>(500, 5);
}

data::DatasetPtr pictures() {
  Generator generator(11);
  const Tensor input = randn({11, 1, 4, 4}, {}, &generator);
  return std::make_shared<data::TensorDataset>(input, randint(0, 5, {11}, {.dtype = DType::i64}, &generator));
}

struct PipelineOutcome {
  std::uint64_t weights = 0;
  std::vector<double> losses;
  double scale = 1;
  friend bool operator==(const PipelineOutcome&, const PipelineOutcome&) = default;
};

// 2 epochs of 11 examples in batches of 7 and 4: shards have 0, 1 or 2 examples.
constexpr int kShards = 4;
const auto kLoss = [](const Tensor& output, const Tensor& target) { return cross_entropy(output, target); };

struct PipelineRun {
  std::optional<double> clip_norm = std::nullopt;
  optim::GradScalerOptions scaler = {.enabled = false};
  std::vector<std::int64_t> layers = {};
  std::string from = "";  ///< a folder with the checkpoint to go on from
  std::string to = "";    ///< saves one after the first epoch there, and ends
};

void save(const PipelineRun& run, const Group& group, nn::StateDict model, nn::StateDict optimizer,
          const data::DataLoader& loader) {
  train::Checkpoint checkpoint{.step = 2};
  checkpoint.parts["model"] = std::move(model);
  checkpoint.parts["optimizer"] = std::move(optimizer);
  if (group.rank() == 0) checkpoint.add("loader", loader).add("generator", default_generator());
  train::save_checkpoint(run.to, checkpoint, group);
}

train::Checkpoint begin(const PipelineRun& run, data::DataLoader& loader) {
  train::Checkpoint found = *train::load_latest(run.from);
  found.restore("loader", loader);
  found.restore("generator", default_generator());
  return found;
}

PipelineOutcome by_parallel(const Group& group, const PipelineRun& run) {
  manual_seed(3);
  nn::Sequential net;
  fill(net);
  optim::AdamW optimizer(net.parameters(), {.lr = 1e-2});
  optim::GradScaler scaler(run.scaler);
  Parallel parallel(net, optimizer, group, {.shards = kShards, .zero = 1, .clip_norm = run.clip_norm});
  data::DataLoader loader(pictures(), {.batch_size = 7, .shuffle = true, .seed = 4});
  if (!run.from.empty()) {
    const train::Checkpoint found = begin(run, loader);
    parallel.load_module_state(found.part("model"));
    parallel.load_optimizer_state(found.part("optimizer"));
  }
  PipelineOutcome outcome;
  while (loader.epoch() < (run.to.empty() ? 2 : 1)) {
    for (const data::LocalBatch& batch : parallel.batches(loader)) {
      const auto measure = [&](const data::Batch& shard) { return Measured(kLoss(net(shard.input), shard.target)); };
      outcome.losses.push_back(parallel.step(batch, measure, scaler).loss);
    }
  }
  if (!run.to.empty()) save(run, group, parallel.own_module_state(), parallel.own_optimizer_state(), loader);
  outcome.weights = nn::state_hash(net.state_dict());
  outcome.scale = scaler.scale();
  return outcome;
}

PipelineOutcome by_one_rank(const PipelineRun& run = {}) {
  PipelineOutcome outcome;
  expect_success(run_ranks(1, [&](const Group& group) { outcome = by_parallel(group, run); }));
  return outcome;
}

PipelineOutcome by_stages(const Group& group, const PipelineRun& run = {}) {
  manual_seed(3);
  nn::Sequential net;
  fill(net);
  Pipeline pipeline(net, group, {.shards = kShards, .layers = run.layers, .clip_norm = run.clip_norm});
  optim::AdamW optimizer(pipeline.parameters(), {.lr = 1e-2});
  optim::GradScaler scaler(run.scaler);
  data::DataLoader loader(pictures(), {.batch_size = 7, .shuffle = true, .seed = 4});
  PipelineOutcome outcome;
  if (!run.from.empty()) {
    const train::Checkpoint found = begin(run, loader);
    pipeline.load_module_state(found.part("model"));
    pipeline.load_optimizer_state(optimizer, found.part("optimizer"));
  }
  while (loader.epoch() < (run.to.empty() ? 2 : 1)) {
    for (const data::LocalBatch& batch : pipeline.batches(loader)) {
      outcome.losses.push_back(pipeline.step(optimizer, batch, kLoss, scaler));
      if (loader.epoch() == 0 && run.to.empty()) pipeline.make_whole();  // and divided again
    }
  }
  if (!run.to.empty()) {
    save(run, group, pipeline.own_module_state(), pipeline.own_optimizer_state(optimizer), loader);
  }
  if (group.size() > 1) {  // a rank has its own alone
    EXPECT_THROW(nn::state_hash(net.state_dict()), ValueError);
  }
  pipeline.make_whole();
  outcome.weights = nn::state_hash(net.state_dict());
  outcome.scale = scaler.scale();
  return outcome;
}

TEST(Pipeline, WeightsDoNotDependOnTheNumberOfStages) {
  const PipelineOutcome expected = by_one_rank();
  EXPECT_EQ(expected.losses.size(), 4u);
  for (int ranks = 1; ranks <= 4; ++ranks) {
    expect_success(
        run_ranks(ranks, [&](const Group& group) { EXPECT_EQ(by_stages(group), expected) << ranks << " stages"; }));
  }
  expect_success(run_ranks(2, [&](const Group& group) { EXPECT_EQ(by_stages(group, {.layers = {6, 1}}), expected); }));
}

TEST(Pipeline, ClipsAndScalesAsOneRank) {
  // The first scale is infinite in f32, so that no rank steps.
  const PipelineRun run{.clip_norm = 0.5, .scaler = {.init_scale = 0x1p130, .backoff_factor = 0x1p-60}};
  const PipelineOutcome expected = by_one_rank(run);
  EXPECT_EQ(expected.scale, 0x1p70);
  EXPECT_NE(expected.weights, by_one_rank({.scaler = run.scaler}).weights) << "nothing was clipped";
  for (int ranks = 1; ranks <= 4; ++ranks) {
    expect_success(run_ranks(
        ranks, [&](const Group& group) { EXPECT_EQ(by_stages(group, run), expected) << ranks << " stages"; }));
  }
}

TEST(Pipeline, CheckpointsGoOnWithAnyNumberOfStagesAndInAParallel) {
  const PipelineOutcome expected = by_one_rank();
  const test::TemporaryFolder folder;
  const std::string by_three = folder.path("pipeline");
  const std::string by_two = folder.path("parallel");
  expect_success(run_ranks(3, [&](const Group& group) { by_stages(group, {.to = by_three}); }));
  expect_success(run_ranks(2, [&](const Group& group) { by_parallel(group, {.to = by_two}); }));
  for (const std::string& from : {by_three, by_two}) {
    for (const int ranks : {1, 2, 4}) {
      expect_success(run_ranks(ranks, [&](const Group& group) {
        EXPECT_EQ(by_stages(group, {.from = from}).weights, expected.weights) << ranks << " stages from " << from;
      }));
    }
  }
  expect_success(run_ranks(
      2, [&](const Group& group) { EXPECT_EQ(by_parallel(group, {.from = by_three}).weights, expected.weights); }));
}

TEST(Pipeline, RefusesTheStateOfOthers) {
  expect_success(run_ranks(2, [](const Group& group) {
    manual_seed(3);
    nn::Sequential net;
    fill(net);
    Pipeline pipeline(net, group, {.shards = kShards});
    const std::vector<nn::Parameter> own = pipeline.parameters();
    optim::AdamW other(std::vector{own.front()}, {.lr = 1e-2});
    EXPECT_THROW(pipeline.own_optimizer_state(other), ValueError);
    nn::StateDict state = pipeline.own_module_state();
    EXPECT_THROW(pipeline.load_module_state(state), ValueError);  // half of it
  }));
}

TEST(Pipeline, RefusesWhatCannotBeDivided) {
  const auto refusal = [](int ranks, const PipelineOptions& options, bool differs = false) {
    const auto ends = run_ranks(ranks, [&](const Group& group) {
      manual_seed(differs ? static_cast<std::uint64_t>(group.rank()) : 3);
      nn::Sequential net;
      fill(net);
      const Pipeline pipeline(net, group, options);
    });
    return ends.front();
  };
  EXPECT_THAT(refusal(2, {.shards = 6}), HasSubstr("6 shards"));
  EXPECT_THAT(refusal(2, {.shards = 1}), HasSubstr("a power of two from 2"));
  EXPECT_THAT(refusal(2, {.layers = {6}}), HasSubstr("gives each rank some of the layers"));
  EXPECT_THAT(refusal(3, {.layers = {2, 1, 4}}), HasSubstr("rank 1 has no layer with parameters"));
  EXPECT_THAT(refusal(2, {}, true), HasSubstr("ranks differ in the weights"));
}

}  // namespace
}  // namespace dist
}  // namespace v0
}  // namespace lockstep
