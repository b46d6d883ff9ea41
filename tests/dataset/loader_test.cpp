#include <lockstep/data/loader.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "support/files.h"

namespace lockstep::data {
namespace {

using test::message_of;
using Indices = std::vector<std::int64_t>;
using Epoch = std::vector<Indices>;

// Example i is the number i.
DatasetPtr counted(std::int64_t count) {
  Indices values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return std::make_shared<TensorDataset>(Tensor::from(values, {count}));
}

Epoch rest_of_epoch(DataLoader& loader) {
  Epoch epoch;
  for (const Batch& batch : loader) epoch.push_back(batch.input.to_vector<std::int64_t>());
  return epoch;
}

TEST(DataLoader, BatchesComeInOrder) {
  DataLoader loader(counted(5), {.batch_size = 2});
  EXPECT_EQ(loader.batches(), 3);
  EXPECT_EQ(rest_of_epoch(loader), (Epoch{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(loader.epoch(), 1u);
  EXPECT_EQ(loader.position(), 0);
  DataLoader whole(counted(5), {.batch_size = 2, .drop_last = true});
  EXPECT_EQ(whole.batches(), 2);
  EXPECT_EQ(rest_of_epoch(whole), (Epoch{{0, 1}, {2, 3}}));
  DataLoader large(counted(5), {.batch_size = 100});
  EXPECT_EQ(rest_of_epoch(large), (Epoch{{0, 1, 2, 3, 4}}));
}

TEST(DataLoader, ShufflesEveryEpochAnewUnderTheSeed) {
  DataLoader loader(counted(50), {.batch_size = 7, .shuffle = true, .seed = 3});
  DataLoader same(counted(50), {.batch_size = 7, .shuffle = true, .seed = 3});
  DataLoader other(counted(50), {.batch_size = 7, .shuffle = true, .seed = 4});
  const Epoch first = rest_of_epoch(loader);
  const Epoch second = rest_of_epoch(loader);
  EXPECT_NE(first, second);
  EXPECT_EQ(first, rest_of_epoch(same));
  EXPECT_EQ(second, rest_of_epoch(same));
  EXPECT_NE(first, rest_of_epoch(other));
  std::multiset<std::int64_t> all;
  for (const Indices& batch : first) all.insert(batch.begin(), batch.end());
  EXPECT_EQ(all.size(), 50u);
  EXPECT_EQ(std::set<std::int64_t>(all.begin(), all.end()).size(), 50u);
  // An epoch's order does not depend on those before.
  DataLoader later(counted(50), {.batch_size = 7, .shuffle = true, .seed = 3});
  later.set_epoch(1);
  EXPECT_EQ(rest_of_epoch(later), second);
}

TEST(DataLoader, WithoutASeedDrawsFromTheGenerator) {
  Generator generator(1);
  const DataLoader first(counted(50), {.shuffle = true, .generator = &generator});
  const DataLoader second(counted(50), {.shuffle = true, .generator = &generator});
  EXPECT_NE(first.seed(), second.seed());
  generator.restore(1, 0);
  EXPECT_EQ(DataLoader(counted(50), {.shuffle = true, .generator = &generator}).seed(), first.seed());
  manual_seed(9);
  const std::uint64_t seed = DataLoader(counted(50)).seed();
  manual_seed(9);
  EXPECT_EQ(DataLoader(counted(50)).seed(), seed);
}

TEST(DataLoader, ThreadsChangeNothing) {
  DataLoader alone(counted(100), {.batch_size = 3, .shuffle = true, .seed = 3});
  const Epoch first = rest_of_epoch(alone);
  const Epoch second = rest_of_epoch(alone);
  for (const int workers : {1, 2, 5}) {
    for (const int prefetch : {1, 3}) {
      DataLoader loader(counted(100),
                        {.batch_size = 3, .shuffle = true, .seed = 3, .workers = workers, .prefetch = prefetch});
      EXPECT_EQ(rest_of_epoch(loader), first) << workers;
      EXPECT_EQ(rest_of_epoch(loader), second) << workers;
    }
  }
}

TEST(DataLoader, ThreadsWaitWhenTheyAreFarEnoughAhead) {
  std::atomic<int> made{0};
  const DatasetPtr dataset = make_dataset(100, [&made](std::int64_t i) {
    ++made;
    return Batch{Tensor::from(std::vector{i}, {}), {}};
  });
  DataLoader loader(dataset, {.workers = 2, .prefetch = 3});
  int taken = 0;
  for (const Batch& batch : loader) {
    EXPECT_EQ(batch.input.item<std::int64_t>(), taken);
    ++taken;
    if (taken % 20 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_LE(made, taken + 6);
  }
  EXPECT_EQ(taken, 100);
}

TEST(DataLoader, ThreadsReportAnErrorWhenItsBatchIsDue) {
  const DatasetPtr dataset = make_dataset(20, [](std::int64_t i) {
    if (i == 12) throw std::runtime_error("example 12 is broken");
    return Batch{Tensor::from(std::vector{i}, {}), {}};
  });
  for (const int workers : {0, 1, 3}) {
    DataLoader loader(dataset, {.batch_size = 2, .workers = workers});
    int good = 0;
    const auto run = [&] {
      for ([[maybe_unused]] const Batch& batch : loader) ++good;
    };
    EXPECT_EQ(message_of<std::runtime_error>(run), "example 12 is broken");
    EXPECT_EQ(good, 6);
    EXPECT_EQ(loader.position(), 6);
    EXPECT_EQ(message_of<std::runtime_error>(run), "example 12 is broken");  // it stands before that batch
    EXPECT_EQ(good, 6);
  }
}

TEST(DataLoader, ThreadsEndWithALoopThatIsLeft) {
  std::atomic<int> running{0};
  const DatasetPtr slow = make_dataset(1000, [&running](std::int64_t i) {
    ++running;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --running;
    return Batch{Tensor::from(std::vector{i}, {}), {}};
  });
  DataLoader loader(slow, {.workers = 3});
  for (const Batch& batch : loader) {
    if (batch.input.item<std::int64_t>() == 4) break;
  }
  EXPECT_EQ(running, 0);
  EXPECT_EQ(loader.position(), 5);
  // The next loop goes on with the rest of the epoch.
  auto rest = loader.begin();
  EXPECT_EQ(rest->input.item<std::int64_t>(), 5);
}

TEST(DataLoader, ThreadsAndDrawsOfUsersAgree) {
  const DatasetPtr noisy = make_dataset(30, [](std::int64_t) { return Batch{rand({2}), {}}; });
  std::vector<std::vector<float>> expected;
  for (const int workers : {0, 1, 3}) {
    DataLoader loader(noisy, {.batch_size = 4, .seed = 8, .workers = workers});
    default_generator().restore(123, 45);
    std::vector<std::vector<float>> values;
    for (const Batch& batch : loader) values.push_back(batch.input.to_vector<float>());
    EXPECT_EQ(default_generator().seed(), 123u);
    EXPECT_EQ(default_generator().draws(), 45u);
    if (workers == 0) expected = values;
    EXPECT_EQ(values, expected);
  }
  EXPECT_NE(expected[0], expected[1]);
}

TEST(DataLoader, ContinuesWithTheVeryNextBatch) {
  const DataLoaderOptions options = {.batch_size = 4, .shuffle = true, .seed = 3};
  DataLoader whole(counted(30), options);
  Epoch all;
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (const Indices& batch : rest_of_epoch(whole)) all.push_back(batch);
  }
  for (std::size_t stop = 0; stop < all.size(); ++stop) {
    DataLoader before(counted(30), options);
    nn::StateDict state = before.state_dict();
    std::size_t seen = 0;
    while (seen < stop) {
      for ([[maybe_unused]] const Batch& batch : before) {
        state = before.state_dict();  // in the loop: the batch counts as used
        if (++seen == stop) break;
      }
    }
    DataLoader after(counted(30), {.batch_size = 4, .shuffle = true, .seed = 99, .workers = 1});
    after.load_state_dict(state);
    EXPECT_EQ(after.seed(), 3u);
    Epoch rest;
    while (after.epoch() < 3) {
      for (const Indices& batch : rest_of_epoch(after)) rest.push_back(batch);
    }
    EXPECT_EQ(rest, Epoch(all.begin() + static_cast<std::ptrdiff_t>(stop), all.end())) << stop;
  }
}

TEST(DataLoader, RefusesStatesOfOtherLoaders) {
  const nn::StateDict state = DataLoader(counted(30), {.batch_size = 4, .shuffle = true}).state_dict();
  const auto load = [&](DataLoaderOptions options, std::int64_t size) {
    DataLoader(counted(size), options).load_state_dict(state);
  };
  EXPECT_NO_THROW(load({.batch_size = 4, .shuffle = true}, 30));
  EXPECT_THROW(load({.batch_size = 4, .shuffle = true}, 31), ValueError);
  EXPECT_THROW(load({.batch_size = 5, .shuffle = true}, 30), ValueError);
  EXPECT_THROW(load({.batch_size = 4, .shuffle = true, .drop_last = true}, 30), ValueError);
  EXPECT_THAT(message_of<ValueError>([&] { load({.batch_size = 4}, 30); }),
              testing::HasSubstr("the state is of a loader with shuffle = 1, and this one has 0"));
  DataLoader loader(counted(30));
  EXPECT_THROW(loader.load_state_dict({}), ValueError);
  nn::StateDict changed;
  for (const auto& [name, value] : loader.state_dict()) {
    changed.push_back(name, name == "position" ? Tensor::from(std::vector<std::int64_t>{31}, {}) : value);
  }
  EXPECT_THROW(loader.load_state_dict(changed), ValueError);
  changed = loader.state_dict();
  changed.push_back("more", zeros({}));
  EXPECT_THROW(loader.load_state_dict(changed), ValueError);
}

TEST(DataLoader, OneLoopAtATime) {
  DataLoader loader(counted(30));
  for ([[maybe_unused]] const Batch& batch : loader) {
    EXPECT_THROW(loader.begin(), ValueError);
    EXPECT_THROW(loader.set_epoch(0), ValueError);
    EXPECT_THROW(loader.load_state_dict(loader.state_dict()), ValueError);
    break;
  }
  EXPECT_EQ(loader.position(), 1);
  DataLoader moved = std::move(loader);
  EXPECT_EQ(rest_of_epoch(moved).size(), 29u);
}

TEST(DataLoader, RefusesOptionsThatGiveNoBatch) {
  EXPECT_THROW(DataLoader(nullptr), ValueError);
  EXPECT_THAT(message_of<ValueError>([] { DataLoader(counted(0)); }), testing::HasSubstr("the data set is empty"));
  EXPECT_THROW(DataLoader(counted(3), {.batch_size = 4, .drop_last = true}), ValueError);
  EXPECT_THROW(DataLoader(counted(3), {.batch_size = 0}), ValueError);
  EXPECT_THROW(DataLoader(counted(3), {.workers = -1}), ValueError);
  EXPECT_THROW(DataLoader(counted(3), {.prefetch = 0}), ValueError);
  EXPECT_THROW(DataLoader(counted(3), {.device = {DeviceKind::cpu, 99}}), DeviceError);
}

TEST(DataLoader, MovesBatchesToItsDevice) {
  const Device reference{DeviceKind::ref, 0};
  DataLoader loader(std::make_shared<TensorDataset>(zeros({4, 2}), zeros({4})), {.workers = 1, .device = reference});
  for (const Batch& batch : loader) {
    EXPECT_EQ(batch.input.device(), reference);
    EXPECT_EQ(batch.target.device(), reference);
  }
}

}  // namespace
}  // namespace lockstep::data
