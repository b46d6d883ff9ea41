// The same weights for any number of stages, to the bit: those of a Parallel of one rank.
#include <lockstep/pipeline.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include <lockstep/autograd.h>
#include <lockstep/data.h>
#include <lockstep/nn.h>
#include <lockstep/ops.h>
#include <lockstep/optim.h>
#include <lockstep/parallel.h>
#include <lockstep/random.h>

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
  net.add<nn::Linear>(12, 5);
}

data::DatasetPtr pictures() {
  Generator generator(11);
  const Tensor input = randn({11, 1, 4, 4}, {}, &generator);
  return std::make_shared<data::TensorDataset>(input, randint(0, 5, {11}, {.dtype = DType::i64}, &generator));
}

struct PipelineOutcome {
  std::uint64_t weights = 0;
  std::vector<double> losses;
  friend bool operator==(const PipelineOutcome&, const PipelineOutcome&) = default;
};

// 2 epochs of 11 examples in batches of 7 and 4: shards have 0, 1 or 2 examples.
constexpr int kShards = 4;
const auto kLoss = [](const Tensor& output, const Tensor& target) { return cross_entropy(output, target); };

PipelineOutcome by_one_rank() {
  PipelineOutcome outcome;
  expect_success(run_ranks(1, [&](const Group& group) {
    manual_seed(3);
    nn::Sequential net;
    fill(net);
    optim::AdamW optimizer(net.parameters(), {.lr = 1e-2});
    Parallel parallel(net, optimizer, group, {.shards = kShards});
    data::DataLoader loader(pictures(), {.batch_size = 7, .shuffle = true, .seed = 4});
    while (loader.epoch() < 2) {
      for (const data::LocalBatch& batch : parallel.batches(loader)) {
        outcome.losses.push_back(
            parallel
                .step(batch, [&](const data::Batch& shard) { return Measured(kLoss(net(shard.input), shard.target)); })
                .loss);
      }
    }
    outcome.weights = nn::state_hash(net.state_dict());
  }));
  return outcome;
}

PipelineOutcome by_stages(const Group& group, const PipelineOptions& options) {
  manual_seed(3);
  nn::Sequential net;
  fill(net);
  Pipeline pipeline(net, group, options);
  optim::AdamW optimizer(pipeline.parameters(), {.lr = 1e-2});
  data::DataLoader loader(pictures(), {.batch_size = 7, .shuffle = true, .seed = 4});
  PipelineOutcome outcome;
  while (loader.epoch() < 2) {
    for (const data::LocalBatch& batch : pipeline.batches(loader)) {
      outcome.losses.push_back(pipeline.step(optimizer, batch, kLoss));
      if (loader.epoch() == 0) pipeline.make_whole();  // and divided again
    }
  }
  if (group.size() > 1) {  // a rank has its own alone
    EXPECT_THROW(nn::state_hash(net.state_dict()), ValueError);
  }
  pipeline.make_whole();
  outcome.weights = nn::state_hash(net.state_dict());
  return outcome;
}

TEST(Pipeline, WeightsDoNotDependOnTheNumberOfStages) {
  const PipelineOutcome expected = by_one_rank();
  EXPECT_EQ(expected.losses.size(), 4u);
  for (int ranks = 1; ranks <= 4; ++ranks) {
    expect_success(run_ranks(ranks, [&](const Group& group) {
      EXPECT_EQ(by_stages(group, {.shards = kShards}), expected) << ranks << " stages";
    }));
  }
  expect_success(run_ranks(2, [&](const Group& group) {
    EXPECT_EQ(by_stages(group, {.shards = kShards, .layers = {5, 1}}), expected);
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
  EXPECT_THAT(refusal(3, {.layers = {2, 1, 3}}), HasSubstr("rank 1 has no layer with parameters"));
  EXPECT_THAT(refusal(2, {}, true), HasSubstr("ranks differ in the weights"));
}

}  // namespace
}  // namespace dist
}  // namespace v0
}  // namespace lockstep
