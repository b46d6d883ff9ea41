// The same weights for any number of ranks, to the bit.
#include <lockstep/parallel.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <mutex>

#include <lockstep/lockstep.h>

#include "support/ranks.h"

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace {

using test::expect_success;
using test::run_ranks;
using ::testing::HasSubstr;

// All that may depend on the rank: random draws, running statistics, a parameter of half precision, one that is frozen,
// one that nobody reads, and one that only some shards do.
struct Net : nn::Module {
  nn::Conv2d conv{*this, "conv", 1, 4, 3};
  nn::BatchNorm2d norm{*this, "norm", 4};
  nn::Linear out{*this, "out", 4 * 6 * 6, 5};
  nn::Parameter unused{*this, "unused", ones({3})};
  nn::Parameter scale{*this, "scale", full({5}, 1.5, {.dtype = DType::bf16})};
  nn::Parameter rare{*this, "rare", zeros({5})};
  nn::Parameter fixed{*this, "fixed", ones({5})};
  Net() { fixed.requires_grad(false); }
  Tensor forward(const Tensor& x) {
    const Tensor h = dropout(relu(norm(conv(x))), 0.3, true);
    Tensor y = out(h.flatten(1)) * scale.tensor().to(DType::f32) * fixed;
    if (x.sum().item<float>() > 0) y = y + rare;
    return y;
  }
};

data::DatasetPtr pictures(std::int64_t count) {
  Generator generator(11);
  const Tensor input = randn({count, 1, 8, 8}, {}, &generator);
  return std::make_shared<data::TensorDataset>(input, randint(0, 5, {count}, {.dtype = DType::i64}, &generator));
}

struct Outcome {
  std::uint64_t weights = 0;
  std::uint64_t optimizer = 0;
  std::vector<double> losses;
  std::vector<double> right;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};
void PrintTo(const Outcome& outcome, std::ostream* to) {
  *to << std::hex << outcome.weights << " " << outcome.optimizer << std::dec;
  for (const double loss : outcome.losses) *to << " " << loss;
}

// 2 epochs of 21 examples in batches of 9, so that shards have 0, 1 or 2 examples.
Outcome train_on(const Group& group, const ParallelOptions& options, int workers = 0) {
  manual_seed(3);
  Net net;
  optim::AdamW optimizer(net.parameters(), {.lr = 1e-2});
  Parallel parallel(net, optimizer, group, options);
  data::DataLoader loader(pictures(21), {.batch_size = 9, .shuffle = true, .seed = 4, .workers = workers});
  Outcome outcome;
  while (loader.epoch() < 2) {
    for (const data::LocalBatch& batch : parallel.batches(loader)) {
      const StepResult result = parallel.step(batch, [&](const data::Batch& shard) {
        const Tensor output = net.forward(shard.input);
        return Measured(cross_entropy(output, shard.target), {sum(argmax(output, 1) == shard.target)});
      });
      outcome.losses.push_back(result.loss);
      outcome.right.push_back(result.sums.at(0));
    }
  }
  parallel.compare();
  parallel.make_whole();
  outcome.weights = nn::state_hash(net.state_dict());
  const nn::StateDict state = parallel.optimizer_state();
  if (group.rank() == 0) outcome.optimizer = nn::state_hash(state);
  return outcome;
}

// What rank 0 found; the others found the same.
Outcome outcome_of(int ranks, const ParallelOptions& options, int workers = 0) {
  std::mutex mutex;
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  expect_success(run_ranks(ranks, [&](const Group& group) {
    const Outcome outcome = train_on(group, options, workers);
    const std::lock_guard lock(mutex);
    outcomes[static_cast<std::size_t>(group.rank())] = outcome;
  }));
  for (Outcome other : outcomes) {
    other.optimizer = outcomes[0].optimizer;
    EXPECT_EQ(other, outcomes[0]);
  }
  return outcomes[0];
}

TEST(ShardedTraining, WeightsDoNotDependOnTheNumberOfRanksNorOnZero) {
  const Outcome one = outcome_of(1, {.shards = 8});
  EXPECT_EQ(one.losses.size(), 6u);
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (const int zero : {0, 1, 3}) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, ZeRO " << zero);
      EXPECT_EQ(outcome_of(ranks, {.shards = 8, .zero = zero}, ranks % 2), one);
    }
  }
}

TEST(ShardedTraining, NorDoClippedGradients) {
  const Outcome one = outcome_of(1, {.shards = 4, .clip_norm = 0.01});
  EXPECT_NE(one.weights, outcome_of(1, {.shards = 4}).weights);
  for (const int zero : {0, 1, 3}) EXPECT_EQ(outcome_of(3, {.shards = 4, .zero = zero, .clip_norm = 0.01}), one);
}

// Every parameter has a gradient: buckets are exchanged beside the backward pass, and `again`, in two parts that are
// differentiated by themselves, more than once.
struct Chain : nn::Module {
  nn::Linear in{*this, "in", 8, 70};
  nn::Linear again{*this, "again", 70, 70};
  nn::Linear out{*this, "out", 70, 5};
  Tensor forward(const Tensor& x) {
    Tensor h = in(x);
    for (int i = 0; i < 2; ++i) {
      h = checkpoint([&](const std::vector<Tensor>& inputs) { return tanh(again(inputs[0])); }, {h});
    }
    return out(again(h));
  }
};

std::uint64_t chain_trained_by(int ranks, const ParallelOptions& options) {
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(ranks));
  expect_success(run_ranks(ranks, [&](const Group& group) {
    manual_seed(3);
    Chain net;
    optim::AdamW optimizer(net.parameters(), {.lr = 1e-2});
    Parallel parallel(net, optimizer, group, options);
    Generator generator(2);
    for (const std::int64_t examples : {9, 3, 8}) {
      const data::Batch batch{randn({examples, 8}, {}, &generator),
                              randint(0, 5, {examples}, {.dtype = DType::i64}, &generator)};
      parallel.step(batch, [&](const data::Batch& b) { return cross_entropy(net.forward(b.input), b.target); });
    }
    parallel.compare();
    parallel.make_whole();
    hashes[static_cast<std::size_t>(group.rank())] = nn::state_hash(net.state_dict());
  }));
  for (const std::uint64_t hash : hashes) EXPECT_EQ(hash, hashes[0]);
  return hashes[0];
}

TEST(ShardedTraining, BucketsDoNotMatter) {
  for (const std::optional<double> clip : {std::optional<double>(), std::optional(0.05)}) {
    const std::uint64_t one = chain_trained_by(1, {.shards = 4, .clip_norm = clip, .bucket_bytes = 0});
    for (int ranks = 2; ranks <= 4; ++ranks) {
      for (const int zero : {0, 1}) {
        for (const std::int64_t bytes : {0, 1, 3'000, 25 << 20}) {
          SCOPED_TRACE(testing::Message() << ranks << " ranks, ZeRO " << zero << ", buckets of " << bytes);
          EXPECT_EQ(chain_trained_by(ranks, {.shards = 4, .zero = zero, .clip_norm = clip, .bucket_bytes = bytes}),
                    one);
        }
      }
      // Units of one parameter, and of several; all divided, and only the large ones.
      for (const std::int64_t bytes : {0, 3'000}) {
        for (const std::int64_t gather : {0, 20'000}) {
          SCOPED_TRACE(testing::Message() << ranks << " ranks, ZeRO 3, " << bytes << ", " << gather);
          EXPECT_EQ(chain_trained_by(ranks, {.shards = 4,
                                             .zero = 3,
                                             .clip_norm = clip,
                                             .bucket_bytes = bytes,
                                             .gather_bytes = gather,
                                             .whole_bytes = gather == 0 ? 0 : 300}),
                    one);
        }
      }
    }
  }
}

// Steps with a scale that is too large at first, for whatever rank has the gradients that overflow.
TEST(ShardedTraining, ScaledLossesToo) {
  const auto trained = [](int ranks, int zero) {
    std::vector<std::pair<std::uint64_t, double>> ends(static_cast<std::size_t>(ranks));
    expect_success(run_ranks(ranks, [&](const Group& group) {
      manual_seed(3);
      Chain net;
      net.to(DType::f16);
      optim::AdamW optimizer(net.parameters(), {.lr = 1e-2, .master_weights = true});
      optim::GradScaler scaler({.init_scale = 1 << 22, .growth_interval = 3});
      Parallel parallel(net, optimizer, group,
                        {.shards = 4, .zero = zero, .clip_norm = 0.1, .bucket_bytes = 3'000, .whole_bytes = 0});
      data::DataLoader loader(std::make_shared<data::TensorDataset>(randn({40, 8}).to(DType::f16),
                                                                    randint(0, 5, {40}, {.dtype = DType::i64})),
                              {.batch_size = 4});
      int stepped = 0;
      for (const data::LocalBatch& batch : parallel.batches(loader)) {
        const StepResult result = parallel.step(
            batch, [&](const data::Batch& b) { return cross_entropy(net.forward(b.input).to(DType::f32), b.target); },
            scaler);
        stepped += result.stepped ? 1 : 0;
      }
      EXPECT_GT(stepped, 0);
      EXPECT_LT(stepped, 10);
      parallel.make_whole();
      ends[static_cast<std::size_t>(group.rank())] = {nn::state_hash(net.state_dict()), scaler.scale()};
    }));
    for (const auto& end : ends) EXPECT_EQ(end, ends[0]);
    return ends[0];
  };
  const auto one = trained(1, 0);
  for (int ranks = 2; ranks <= 4; ++ranks) {
    for (const int zero : {0, 1, 3}) EXPECT_EQ(trained(ranks, zero), one) << ranks << " ranks, ZeRO " << zero;
  }
}

TEST(ShardedTraining, TheNumberOfShardsBelongsToTheRun) {
  EXPECT_NE(outcome_of(1, {.shards = 8}).weights, outcome_of(1, {.shards = 2}).weights);
}

TEST(ShardedTraining, OneShardGivesTheBitsOfATrainingByHand) {
  const Outcome parallel = outcome_of(1, {.shards = 1});
  manual_seed(3);
  Net net;
  optim::AdamW optimizer(net.parameters(), {.lr = 1e-2});
  data::DataLoader loader(pictures(21), {.batch_size = 9, .shuffle = true, .seed = 4});
  while (loader.epoch() < 2) {
    for (const data::Batch& batch : loader) optimizer.step(cross_entropy(net.forward(batch.input), batch.target));
  }
  EXPECT_EQ(nn::state_hash(net.state_dict()), parallel.weights);
}

TEST(ShardedTraining, ClippingIsThatOfClipGradNorm) {
  const auto trained = [](bool by_hand) {
    manual_seed(3);
    nn::Linear net(100, 90);  // more than one chunk
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    const Tensor x = randn({4, 100});
    const Tensor y = randn({4, 90});
    if (by_hand) {
      backward(mse_loss(net(x), y));
      optim::clip_grad_norm(net.parameters(), 0.5);
      optimizer.step();
    } else {
      Parallel parallel(net, optimizer, dist::init(), {.shards = 1, .clip_norm = 0.5});
      parallel.step(data::Batch{x, y}, [&](const data::Batch& b) { return mse_loss(net(b.input), b.target); });
    }
    return nn::state_hash(net.state_dict());
  };
  EXPECT_EQ(trained(true), trained(false));
}

TEST(ShardedTraining, AWholeBatchIsCutAsTheLoaderCutsIt) {
  const auto trained = [](bool whole) {
    std::uint64_t hash = 0;
    expect_success(run_ranks(2, [&](const Group& group) {
      manual_seed(3);
      Net net;
      optim::SGD optimizer(net.parameters(), {.lr = 0.1});
      Parallel parallel(net, optimizer, group, {.shards = 4});
      const auto loss = [&](const data::Batch& b) { return cross_entropy(net.forward(b.input), b.target); };
      data::DataLoader loader(pictures(7), {.batch_size = 7});
      if (whole) {
        for (const data::Batch& batch : loader) parallel.step(batch, loss);
      } else {
        for (const data::LocalBatch& batch : parallel.batches(loader)) parallel.step(batch, loss);
      }
      if (group.rank() == 0) hash = nn::state_hash(net.state_dict());
    }));
    return hash;
  };
  EXPECT_EQ(trained(true), trained(false));
}

TEST(ShardedTraining, RunningStatisticsAreTheMeanOverShards) {
  expect_success(run_ranks(2, [&](const Group& group) {
    manual_seed(1);
    nn::BatchNorm1d norm(3);
    optim::SGD optimizer(norm.parameters(), {.lr = 0.0});
    Parallel parallel(norm, optimizer, group, {.shards = 2});
    Generator generator(2);
    const Tensor x = randn({8, 3}, {}, &generator);
    parallel.step(data::Batch{x, {}}, [&](const data::Batch& b) { return square(norm(b.input)).mean(); });
    const Tensor means = (mean(x.narrow(0, 0, 4), {0}) + mean(x.narrow(0, 4, 4), {0})) / 2;
    EXPECT_TRUE(allclose(norm.running_mean.tensor(), means * 0.1));
    EXPECT_EQ(norm.num_batches_tracked.tensor().item<std::int64_t>(), 1);
  }));
}

TEST(ShardedTraining, AFlippedBitIsFoundAndItsRankNamed) {
  std::vector<int> blamed(3, -2);
  const std::vector<std::string> ends = run_ranks(3, [&](const Group& group) {
    manual_seed(3);
    Net net;
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    Parallel parallel(net, optimizer, group, {.shards = 4, .compare_every = 2});
    data::DataLoader loader(pictures(20), {.batch_size = 4});
    std::int64_t steps = 0;
    try {
      for (const data::LocalBatch& batch : parallel.batches(loader)) {
        parallel.step(batch, [&](const data::Batch& b) { return cross_entropy(net.forward(b.input), b.target); });
        if (++steps == 3 && group.rank() == 1) {
          std::vector<float> values = net.unused.tensor().to_vector<float>();
          values[1] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(values[1]) ^ 1u);
          net.unused.set(Tensor::from(values, {3}));
        }
      }
    } catch (const DistributedError& error) {
      EXPECT_EQ(steps, 3);
      blamed[static_cast<std::size_t>(group.rank())] = error.rank();
      throw;
    }
  });
  EXPECT_THAT(blamed, ::testing::Each(1));
  for (const std::string& end : ends) EXPECT_THAT(end, HasSubstr("the weights of rank 1 differ"));
}

TEST(ShardedTraining, RanksThatBeginDifferentlyAreRefused) {
  const std::vector<std::string> seeds = run_ranks(2, [](const Group& group) {
    manual_seed(static_cast<std::uint64_t>(group.rank()));
    Net net;
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    Parallel(net, optimizer, group);
  });
  for (const std::string& end : seeds) EXPECT_THAT(end, HasSubstr("the hash of the weights"));
  const std::vector<std::string> shards = run_ranks(2, [](const Group& group) {
    manual_seed(1);
    Net net;
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    Parallel(net, optimizer, group, {.shards = group.rank() == 0 ? 4 : 8});
  });
  for (const std::string& end : shards) {
    EXPECT_THAT(end, HasSubstr("the number of shards differs: 4 on rank 0, 8 on rank 1"));
  }
}

TEST(ShardedTraining, BadOptionsAndBatches) {
  const Group group = dist::init();
  nn::Linear net(2, 2);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  EXPECT_THROW(Parallel(net, optimizer, group, {.shards = 0}), ValueError);
  EXPECT_THROW(Parallel(net, optimizer, group, {.shards = 6}), ValueError);
  EXPECT_THROW(Parallel(net, optimizer, group, {.zero = 2}), ValueError);
  EXPECT_THROW(Parallel(net, optimizer, group, {.clip_norm = -1.0}), ValueError);
  EXPECT_THROW(Parallel(net, optimizer, group, {.compare_every = -1}), ValueError);
  Parallel parallel(net, optimizer, group, {.shards = 2});
  const auto loss = [&](const data::Batch& b) { return net(b.input).mean(); };
  EXPECT_THROW(parallel.step(data::LocalBatch{}, loss), ValueError);
  EXPECT_THROW(parallel.step(data::Batch{}, loss), ValueError);
  EXPECT_THROW(parallel.step(data::Batch{zeros({0, 2}), {}}, loss), ValueError);
  EXPECT_THROW(parallel.step(data::Batch{zeros({2, 2}), zeros({3})}, loss), ShapeError);
  EXPECT_THROW(parallel.step(data::Batch{zeros({2, 2}), {}}, [](const data::Batch& b) { return b.input.mean(); }),
               ValueError);
  expect_success(run_ranks(3, [](const Group& three) {
    nn::Linear small(2, 2);
    optim::SGD sgd(small.parameters(), {.lr = 0.1});
    EXPECT_THROW(Parallel(small, sgd, three, {.shards = 2}), ValueError);
  }));
}

}  // namespace
}  // namespace dist
}  // namespace v0
}  // namespace lockstep
