// MixUp and CutMix: each batch against the definitions with the share that its labels tell, and the distribution of it.
#include <lockstep/data/mix.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include <lockstep/data/loader.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

namespace lockstep::data {
namespace {

// Pictures of one value each, that of their class.
DatasetPtr classes(std::int64_t count, const Shape& picture = {2, 8, 6}) {
  const Tensor label = arange(0, static_cast<double>(count), 1, {.dtype = DType::i64});
  const Tensor value = label.to(DType::f32).reshape({count, 1, 1, 1});
  return std::make_shared<TensorDataset>(value.repeat({1, picture[0], picture[1], picture[2]}), label);
}
Batch fetch_mixed(const DatasetPtr& dataset, std::vector<std::int64_t> indices, std::uint64_t epoch = 0) {
  return dataset->fetch({indices, 7, epoch});
}

TEST(Mix, MixUpIsItsDefinition) {
  const auto mixed = mix(classes(4), {MixUp{.classes = 4}});
  const Batch batch = fetch_mixed(mixed, {2, 0, 3});
  ASSERT_EQ(batch.input.shape(), (Shape{3, 2, 8, 6}));
  ASSERT_EQ(batch.target.shape(), (Shape{3, 4}));
  const float own = batch.target.index({0, 2}).item<float>();
  const float other = batch.target.index({0, 3}).item<float>();
  EXPECT_GT(own, 0);
  EXPECT_LT(own, 1);
  EXPECT_NEAR(own + other, 1, 1e-6);
  // The examples are of the classes 2, 0, 3; before the first comes the last.
  EXPECT_EQ(batch.target.to_vector<float>(),
            (std::vector<float>{0, 0, own, other, own, 0, other, 0, other, 0, 0, own}));
  const std::vector<float> values = {3 * other + 2 * own, 2 * other + 0 * own, 0 * other + 3 * own};
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(batch.input.select(0, i).to_vector<float>(), std::vector<float>(96, values[static_cast<std::size_t>(i)]));
  }
}

TEST(Mix, CutMixPastesOneRectangleAndSharesTheLabelByIt) {
  const auto mixed = mix(classes(9), {CutMix{.classes = 9}});
  for (std::uint64_t epoch = 0; epoch < 40; ++epoch) {
    const Batch batch = fetch_mixed(mixed, {5, 8}, epoch);
    const Tensor pasted = batch.input.select(0, 0) == 8.0f;
    const auto places = pasted.to(DType::f32).to_vector<float>();
    const float area = std::accumulate(places.begin(), places.begin() + 48, 0.0f);
    EXPECT_EQ(std::vector<float>(places.begin(), places.begin() + 48),
              std::vector<float>(places.begin() + 48, places.end()));
    EXPECT_EQ(batch.target.index({0, 5}).item<float>(), static_cast<float>(1 - static_cast<double>(area) / 48));
    // A rectangle: as many places as its rows and columns say.
    int rows = 0, columns = 0;
    for (std::size_t y = 0; y < 8; ++y)
      rows += *std::max_element(places.begin() + static_cast<std::ptrdiff_t>(y * 6),
                                places.begin() + static_cast<std::ptrdiff_t>(y * 6 + 6)) > 0;
    for (std::size_t x = 0; x < 6; ++x) {
      bool any = false;
      for (std::size_t y = 0; y < 8; ++y) any = any || places[y * 6 + x] > 0;
      columns += any;
    }
    EXPECT_EQ(area, static_cast<float>(rows * columns));
  }
}

// Mean 1/2, variance 1 / (4 (2 alpha + 1)).
TEST(Mix, SharesAreOfTheBetaDistribution) {
  for (const double alpha : {0.2, 1.0, 3.0}) {
    const auto mixed = mix(classes(2, {1, 1, 1}), {MixUp{.classes = 2, .alpha = alpha}});
    double sum = 0, squares = 0;
    const int draws = 4000;
    for (int i = 0; i < draws; ++i) {
      const double share =
          fetch_mixed(mixed, {0, 1}, static_cast<std::uint64_t>(i)).target.index({0, 0}).item<double>();
      ASSERT_GE(share, 0);
      ASSERT_LE(share, 1);
      sum += share;
      squares += (share - 0.5) * (share - 0.5);
    }
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(sum / draws, 0.5, 5 * std::sqrt(variance / draws)) << alpha;
    EXPECT_NEAR(squares / draws, variance, 0.1 * variance) << alpha;
  }
}

TEST(Mix, IsTheSameForAnyNumberOfWorkersAndTakesEveryWay) {
  const auto mixed = mix(classes(40), {MixUp{.classes = 40}, CutMix{.classes = 40}});
  int whole = 0, between = 0;
  const auto epoch = [&](int workers) {
    DataLoader loader(mixed, {.batch_size = 4, .shuffle = true, .seed = 3, .workers = workers});
    std::vector<float> all;
    for (const Batch& batch : loader) {
      for (const Tensor& t : {batch.input, batch.target}) {
        const auto values = t.to_vector<float>();
        all.insert(all.end(), values.begin(), values.end());
      }
      const Tensor first = batch.input.select(0, 0);
      const bool is_whole = (amax(abs(first - round(first))).item<float>()) == 0;
      ++(is_whole ? whole : between);
    }
    return all;
  };
  const std::vector<float> alone = epoch(0);
  EXPECT_GT(whole, 0);
  EXPECT_GT(between, 0);
  EXPECT_EQ(epoch(3), alone);
}

TEST(Mix, TakesDistributionsAndAnyPictureForCutMix) {
  const Tensor soft = Tensor::from(std::vector<float>{0.5f, 0.5f, 1, 0}, {2, 2});
  const auto set = std::make_shared<TensorDataset>(Tensor::from(std::vector<std::uint8_t>{1, 2}, {2, 1, 1, 1}), soft);
  const Batch batch = fetch_mixed(mix(set, {CutMix{.classes = 2}}), {0, 1});
  EXPECT_EQ(batch.input.dtype(), DType::u8);
  EXPECT_EQ(sum(batch.target, 1).to_vector<float>(), (std::vector<float>{1, 1}));
  // Twice: what comes out can go in again.
  EXPECT_NO_THROW(fetch_mixed(mix(mix(classes(3), {MixUp{.classes = 3}}), {MixUp{.classes = 3}}), {0, 1, 2}));
}

TEST(Mix, RefusesWhatDoesNotFit) {
  EXPECT_THROW(mix(nullptr, {MixUp{.classes = 2}}), ValueError);
  EXPECT_THROW(mix(classes(2), {}), ValueError);
  EXPECT_THROW(mix(classes(2), {MixUp{}}), ValueError);
  EXPECT_THROW(mix(classes(2), {MixUp{.classes = 2, .alpha = 0}}), ValueError);
  EXPECT_THROW(mix(classes(2), {MixUp{.classes = 2}, CutMix{.classes = 3}}), ValueError);
  EXPECT_THROW(fetch_mixed(mix(classes(3), {MixUp{.classes = 2}}), {0, 2}), IndexError);
  const auto bytes =
      std::make_shared<TensorDataset>(zeros({2, 3}, {.dtype = DType::u8}), zeros({2}, {.dtype = DType::i64}));
  EXPECT_THROW(fetch_mixed(mix(bytes, {MixUp{.classes = 2}}), {0, 1}), DTypeError);
  EXPECT_THROW(fetch_mixed(mix(bytes, {CutMix{.classes = 2}}), {0, 1}), ShapeError);
  const auto unlabelled = std::make_shared<TensorDataset>(zeros({2, 3}));
  EXPECT_THROW(fetch_mixed(mix(unlabelled, {MixUp{.classes = 2}}), {0, 1}), ValueError);
}

}  // namespace
}  // namespace lockstep::data
