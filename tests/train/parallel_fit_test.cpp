// fit() on the ranks of a group.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <mutex>

#include <lockstep/lockstep.h>
#include <lockstep/parallel.h>

#include "support/files.h"
#include "support/ranks.h"

namespace lockstep {
inline namespace v0 {
namespace {

data::DatasetPtr pictures(std::int64_t count, std::uint64_t seed) {
  Generator generator(seed);
  const Tensor input = randn({count, 3, 16, 16}, {}, &generator);
  return std::make_shared<data::TensorDataset>(input, randint(0, 10, {count}, {.dtype = DType::i64}, &generator));
}
data::DatasetPtr digits(std::int64_t count, std::uint64_t seed) {
  Generator generator(seed);
  const Tensor input = randn({count, 1, 28, 28}, {}, &generator);
  return std::make_shared<data::TensorDataset>(input, randint(0, 10, {count}, {.dtype = DType::i64}, &generator));
}
data::DatasetPtr texts(std::int64_t count, std::uint64_t seed) {
  Generator generator(seed);
  const Tensor tokens = randint(0, 17, {count, 9}, {.dtype = DType::i64}, &generator);
  return std::make_shared<data::TensorDataset>(tokens.narrow(1, 0, 8), tokens.narrow(1, 1, 8));
}

struct Gpt : nn::Layer {
  nn::Embedding tokens{*this, "tokens", 17, 16};
  nn::TransformerEncoderLayer block{*this, "block", 16, 2, {.dim_feedforward = 32, .dropout = 0.1, .batch_first = true}};
  nn::Linear head{*this, "head", 16, 17};
  Tensor forward(const Operand& x) const override { return head(block.forward(tokens(x))).transpose(1, 2); }
};

struct Found {
  std::vector<double> losses;
  double accuracy = 0;
  std::uint64_t weights = 0;
  friend bool operator==(const Found&, const Found&) = default;
};

using MakeModel = std::function<std::unique_ptr<nn::Layer>()>;
using MakeData = std::function<data::DatasetPtr(std::int64_t count, std::uint64_t seed)>;

// Epochs up to `epochs`, from the folder's last checkpoint if there is one.
Found fitted(const dist::Group& group, int zero, const MakeModel& make, const MakeData& make_data, const std::string& folder,
             std::int64_t epochs) {
  manual_seed(1);
  const std::unique_ptr<nn::Layer> model = make();
  optim::AdamW optimizer(model->parameters(), {.lr = 1e-2});
  dist::Parallel parallel(
      *model, optimizer, group,
      {.shards = 4, .zero = zero, .bucket_bytes = 40'000, .gather_bytes = 40'000, .whole_bytes = 100});
  data::DataLoader loader(make_data(8, 2), {.batch_size = 4, .shuffle = true, .seed = 3});
  data::DataLoader test(make_data(10, 5), {.batch_size = 3});
  const train::FitResult result = train::fit(*model, optimizer, loader,
                                             {.epochs = epochs,
                                              .test = &test,
                                              .checkpoints = folder,
                                              .resume = true,
                                              .parallel = &parallel,
                                              .progress = false});
  parallel.make_whole();
  Found found{.losses = {}, .accuracy = result.test.accuracy, .weights = nn::state_hash(model->state_dict())};
  for (const train::Record& record : result.records) found.losses.push_back(record.loss);
  return found;
}

// The same on every rank.
Found of_ranks(int ranks, int zero, const MakeModel& make, const MakeData& make_data, const std::string& folder,
               std::int64_t epochs) {
  std::mutex mutex;
  std::vector<Found> all;
  test::expect_success(test::run_ranks(ranks, [&](const dist::Group& group) {
    Found found = fitted(group, zero, make, make_data, folder, epochs);
    const std::lock_guard lock(mutex);
    all.push_back(std::move(found));
  }));
  for (const Found& found : all) EXPECT_TRUE(found == all.front());
  return all.at(0);
}

// The first epoch with some ranks, the second with others: as with one.
void expect_equal_for_all_ranks(const MakeModel& make, const MakeData& make_data) {
  const test::TemporaryFolder folders;
  const Found first = of_ranks(1, 0, make, make_data, folders.path("one"), 1);
  const Found second = of_ranks(1, 0, make, make_data, folders.path("one"), 2);
  constexpr int kZero[] = {0, 1, 3};
  for (int ranks = 2; ranks <= 4; ++ranks) {
    const std::string folder = folders.path(std::to_string(ranks));
    EXPECT_TRUE(of_ranks(ranks, kZero[(ranks + 1) % 3], make, make_data, folder, 1) == first) << ranks;
    EXPECT_TRUE(of_ranks(5 - ranks, kZero[(ranks + 2) % 3], make, make_data, folder, 2) == second) << ranks;
  }
}

TEST(FitOnRanks, ResNetAndAnotherNumberOfRanksAfterAnEpoch) {
  expect_equal_for_all_ranks([] { return std::make_unique<models::CifarResNet>(10, 20); }, pictures);
}

TEST(FitOnRanks, LeNet) {
  expect_equal_for_all_ranks([] { return std::make_unique<models::LeNet>(10); }, digits);
}

TEST(FitOnRanks, Gpt) {
  expect_equal_for_all_ranks([] { return std::make_unique<Gpt>(); }, texts);
}

// Every network, number of ranks before and after, and ZeRO: `make soak`.
TEST(FitOnRanks, DISABLED_EveryPairOfNumbersOfRanks) {
  const std::pair<MakeModel, MakeData> networks[] = {
      {[] { return std::make_unique<models::LeNet>(10); }, digits},
      {[] { return std::make_unique<models::CifarResNet>(10, 20); }, pictures},
      {[] { return std::make_unique<Gpt>(); }, texts}};
  for (const auto& [make, make_data] : networks) {
    const test::TemporaryFolder folders;
    const Found first = of_ranks(1, 0, make, make_data, folders.path("one"), 1);
    const Found second = of_ranks(1, 0, make, make_data, folders.path("one"), 2);
    for (int before = 1; before <= 4; ++before) {
      for (int after = 1; after <= 4; ++after) {
        for (const auto& [zero, then] : {std::pair(0, 1), std::pair(1, 3), std::pair(3, 0), std::pair(3, 3)}) {
          const std::string folder = folders.path(std::to_string(1000 * before + 100 * after + 10 * zero + then));
          EXPECT_TRUE(of_ranks(before, zero, make, make_data, folder, 1) == first) << before << " ranks, ZeRO " << zero;
          EXPECT_TRUE(of_ranks(after, then, make, make_data, folder, 2) == second)
              << before << ", then " << after << " ranks, ZeRO " << zero << ", then " << then;
        }
      }
    }
  }
}

TEST(FitOnRanks, WhatRankZeroCannotWriteIsToldToAll) {
  const test::TemporaryFolder folders;
  const std::string file = folders.path("file");
  std::ofstream(file) << "in the way";
  const std::vector<std::string> ends = test::run_ranks(2, [&](const dist::Group& group) {
    fitted(group, 0, [] { return std::make_unique<Gpt>(); }, texts, file, 2);
  });
  EXPECT_THAT(ends[0], ::testing::HasSubstr(file));
  EXPECT_THAT(ends[1], ::testing::HasSubstr("rank 0 could not write its part of the checkpoint"));
}

TEST(FitOnRanks, OneRankMayAskToStop) {
  const std::vector<std::string> ends = test::run_ranks(2, [](const dist::Group& group) {
    manual_seed(1);
    nn::Linear net(4, 2);
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    dist::Parallel parallel(net, optimizer, group, {.shards = 2});
    const auto data = std::make_shared<data::TensorDataset>(zeros({8, 4}), zeros({8}, DType::i64));
    data::DataLoader loader(data, {.batch_size = 2});
    int asked = 0;
    const train::FitResult result =
        train::fit(net, optimizer, loader,
                   {.parallel = &parallel, .progress = false, .stop = [&] { return ++asked == 2 && group.rank() == 1; }});
    EXPECT_EQ(result.steps, 2);
    EXPECT_TRUE(result.stopped);
  });
  test::expect_success(ends);
}

TEST(FitOnRanks, FoldersThatRanksDoNotShareAreNoticed) {
  const test::TemporaryFolder folders;
  const auto make = [] { return std::make_unique<Gpt>(); };
  of_ranks(1, 0, make, texts, folders.path("0"), 1);
  const std::vector<std::string> ends = test::run_ranks(2, [&](const dist::Group& group) {
    fitted(group, 0, make, texts, folders.path(std::to_string(group.rank())), 2);
  });
  for (const std::string& end : ends) EXPECT_THAT(end, ::testing::HasSubstr("a folder that all ranks see"));
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
