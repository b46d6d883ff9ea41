#include <lockstep/data/dataset.h>

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "support/files.h"

namespace lockstep::data {
namespace {

using test::message_of;
using Indices = std::vector<std::int64_t>;

DatasetPtr numbers(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(2 * count));
  std::iota(values.begin(), values.end(), 0.0f);
  Indices labels(static_cast<std::size_t>(count));
  std::iota(labels.begin(), labels.end(), 100);
  return std::make_shared<TensorDataset>(Tensor::from(values, {count, 2}), Tensor::from(labels, {count}));
}

Batch fetch(const DatasetPtr& dataset, const Indices& indices) {
  return dataset->fetch({indices});
}

TEST(Dataset, TensorsGiveTheRowsAskedFor) {
  const DatasetPtr dataset = numbers(4);
  EXPECT_EQ(dataset->size(), 4);
  const Batch batch = fetch(dataset, {3, 0, 3});
  EXPECT_EQ(batch.input.shape(), (Shape{3, 2}));
  EXPECT_EQ(batch.input.to_vector<float>(), (std::vector<float>{6, 7, 0, 1, 6, 7}));
  EXPECT_EQ(batch.target.to_vector<std::int64_t>(), (Indices{103, 100, 103}));
  EXPECT_THROW(fetch(dataset, {4}), IndexError);
  EXPECT_THROW(fetch(dataset, {-1}), IndexError);
}

TEST(Dataset, TensorsMayBeViewsAndLackTargets) {
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}).transpose(0, 1);
  const auto dataset = std::make_shared<TensorDataset>(x);
  const Batch batch = fetch(dataset, {2, 1});
  EXPECT_EQ(batch.input.to_vector<float>(), (std::vector<float>{3, 6, 2, 5}));
  EXPECT_FALSE(batch.target.defined());
  EXPECT_FALSE(dataset->target().defined());
  EXPECT_EQ(dataset->input().to_vector<float>(), x.to_vector<float>());
}

TEST(Dataset, TensorsNeedOneNumberOfRows) {
  EXPECT_THROW(TensorDataset(zeros({3, 2}), zeros({2})), ShapeError);
  EXPECT_THROW(TensorDataset(zeros({})), ShapeError);
  EXPECT_THROW(TensorDataset(Tensor{}), ValueError);
}

TEST(Dataset, SubsetsRenumber) {
  const auto subset = std::make_shared<Subset>(numbers(5), Indices{4, 2});
  EXPECT_EQ(subset->size(), 2);
  EXPECT_EQ(fetch(subset, {1, 0}).target.to_vector<std::int64_t>(), (Indices{102, 104}));
  EXPECT_THROW(fetch(subset, {2}), IndexError);
  EXPECT_THROW(Subset(numbers(5), {5}), IndexError);
  EXPECT_THROW(Subset(nullptr, {}), ValueError);
}

TEST(Dataset, FunctionsMakeExamples) {
  const DatasetPtr dataset = make_dataset(3, [](std::int64_t i) {
    const auto x = static_cast<float>(i);
    return Batch{Tensor::from(std::vector{x, x * x}, {2}), Tensor::from(std::vector{i}, {})};
  });
  const Batch batch = fetch(dataset, {2, 1});
  EXPECT_EQ(batch.input.shape(), (Shape{2, 2}));
  EXPECT_EQ(batch.input.to_vector<float>(), (std::vector<float>{2, 4, 1, 1}));
  EXPECT_EQ(batch.target.shape(), (Shape{2}));
  EXPECT_EQ(batch.target.to_vector<std::int64_t>(), (Indices{2, 1}));
  EXPECT_THROW(fetch(dataset, {3}), IndexError);
  EXPECT_THROW(make_dataset(-1, [](std::int64_t) { return Batch(); }), ValueError);
  EXPECT_THROW(make_dataset(1, {}), ValueError);
}

TEST(Dataset, ExamplesOfOneBatchMustBeAlike) {
  const DatasetPtr ragged = make_dataset(3, [](std::int64_t i) { return Batch{zeros({i + 1}), {}}; });
  EXPECT_EQ(message_of<ShapeError>([&] {
              fetch(ragged, {0, 1});
            }),
            "make_dataset: the input of example 1 is f32 [2], of the batch's first f32 [1]");
  const DatasetPtr mixed = make_dataset(3, [](std::int64_t i) {
    return Batch{zeros({1}, {.dtype = i == 0 ? DType::f32 : DType::i64}), {}};
  });
  EXPECT_THROW(fetch(mixed, {0, 1}), DTypeError);
  const DatasetPtr partly = make_dataset(3, [](std::int64_t i) {
    return Batch{zeros({1}), i == 0 ? zeros({}) : Tensor()};
  });
  EXPECT_THROW(fetch(partly, {0, 1}), ValueError);
  EXPECT_THROW(fetch(make_dataset(1, [](std::int64_t) { return Batch(); }), {0}), ValueError);
}

TEST(Dataset, MapChangesBatches) {
  const DatasetPtr doubled = map(numbers(3), [](Batch batch, const Request& request) {
    return Batch{batch.input * 2.0f, batch.target + static_cast<std::int64_t>(request.epoch)};
  });
  EXPECT_EQ(doubled->size(), 3);
  const Indices indices = {1};
  const Batch batch = doubled->fetch({.indices = indices, .epoch = 5});
  EXPECT_EQ(batch.input.to_vector<float>(), (std::vector<float>{4, 6}));
  EXPECT_EQ(batch.target.item<std::int64_t>(), 106);
  EXPECT_THROW(map(nullptr, [](Batch b, const Request&) { return b; }), ValueError);
}

TEST(Dataset, RandomSplitsArePartitionsAndSeeded) {
  const auto all_of = [](const std::vector<std::shared_ptr<const Subset>>& parts) {
    Indices all;
    for (const auto& part : parts) all.insert(all.end(), part->indices().begin(), part->indices().end());
    return all;
  };
  Generator first(7);
  Generator second(7);
  const auto parts = random_split(numbers(100), {70, 0, 30}, &first);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0]->size(), 70);
  EXPECT_EQ(parts[1]->size(), 0);
  Indices all = all_of(parts);
  EXPECT_EQ(all, all_of(random_split(numbers(100), {70, 0, 30}, &second)));
  EXPECT_NE(all, all_of(random_split(numbers(100), {70, 0, 30}, &second)));  // the next draw
  EXPECT_FALSE(std::is_sorted(all.begin(), all.end()));
  std::sort(all.begin(), all.end());
  for (std::int64_t i = 0; i < 100; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)], i);
  EXPECT_THROW(random_split(numbers(3), {1, 1}), ValueError);
  EXPECT_THROW(random_split(numbers(3), {4, -1}), ValueError);
  EXPECT_THROW(random_split(numbers(3), {INT64_MAX, INT64_MAX}), ValueError);
}

}  // namespace
}  // namespace lockstep::data
