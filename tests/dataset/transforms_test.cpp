#include <lockstep/data/transforms.h>

#include <cmath>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include <lockstep/data/loader.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "data/picture.h"

namespace lockstep::data {
namespace {

using Values = std::vector<float>;
constexpr std::int64_t kCount = 40;

// One-channel pictures of 3 x 4 whose pixels are 1, 2, ... 12.
DatasetPtr pictures() {
  Values values;
  for (std::int64_t i = 0; i < kCount; ++i) {
    for (int p = 1; p <= 12; ++p) values.push_back(static_cast<float>(p));
  }
  return std::make_shared<TensorDataset>(Tensor::from(values, {kCount, 1, 3, 4}));
}

Tensor all_of(const DatasetPtr& dataset, std::uint64_t seed = 1, std::uint64_t epoch = 0) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(dataset->size()));
  std::iota(indices.begin(), indices.end(), 0);
  return dataset->fetch({indices, seed, epoch}).input;
}

std::set<Values> distinct_rows(const Tensor& batch) {
  std::set<Values> result;
  for (const Tensor& picture : batch.unbind(0)) result.insert(picture.to_vector<float>());
  return result;
}

TEST(Transforms, BytesBecomeFractions) {
  const Tensor bytes = Tensor::from(std::vector<std::uint8_t>{0, 51, 255}, {1, 3, 1, 1});
  const Tensor input = all_of(transform(std::make_shared<TensorDataset>(bytes), {}));
  EXPECT_EQ(input.shape(), (Shape{1, 3, 1, 1}));
  EXPECT_EQ(input.to_vector<float>(), (Values{0, 51.0f / 255.0f, 1}));
}

TEST(Transforms, NormalizePerChannel) {
  const auto dataset = std::make_shared<TensorDataset>(Tensor::from(Values{1, 2, 3, 4}, {1, 2, 1, 2}));
  EXPECT_EQ(all_of(transform(dataset, {Normalize{{1, 2}, {2, 4}}})).to_vector<float>(), (Values{0, 0.5f, 0.25f, 0.5f}));
  EXPECT_EQ(all_of(transform(dataset, {Normalize{{1}, {2}}})).to_vector<float>(), (Values{0, 0.5f, 1, 1.5f}));
  EXPECT_THROW(all_of(transform(dataset, {Normalize{{1, 2, 3}, {1}}})), ShapeError);
}

TEST(Transforms, FlipsSome) {
  const std::set<Values> seen = distinct_rows(all_of(transform(pictures(), {RandomHorizontalFlip{}})));
  const Values plain = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const Values flipped = {4, 3, 2, 1, 8, 7, 6, 5, 12, 11, 10, 9};
  EXPECT_EQ(seen, (std::set<Values>{plain, flipped}));
  EXPECT_EQ(distinct_rows(all_of(transform(pictures(), {RandomHorizontalFlip{0}}))), (std::set<Values>{plain}));
  EXPECT_EQ(distinct_rows(all_of(transform(pictures(), {RandomHorizontalFlip{1}}))), (std::set<Values>{flipped}));
}

TEST(Transforms, CropsEverywhereInThePaddedPicture) {
  // 2 x 2 of the 5 x 6 with one pixel of -1 around: 4 x 5 places.
  const auto dataset = std::make_shared<TensorDataset>(pictures()->fetch({std::vector<std::int64_t>(1000, 0)}).input);
  const Tensor input = all_of(transform(dataset, {RandomCrop{2, 2, 1, -1}}));
  EXPECT_EQ(input.shape(), (Shape{1000, 1, 2, 2}));
  const std::set<Values> seen = distinct_rows(input);
  EXPECT_EQ(seen.size(), 20u);
  EXPECT_TRUE(seen.count({-1, -1, -1, 1}));
  EXPECT_TRUE(seen.count({6, 7, 10, 11}));
  EXPECT_TRUE(seen.count({12, -1, -1, -1}));
  // Without a size, the picture keeps its own; without padding there is one place.
  EXPECT_EQ(all_of(transform(pictures(), {RandomCrop{}})).hash(), all_of(pictures()).hash());
  EXPECT_EQ(all_of(transform(pictures(), {RandomCrop{.padding = 2}})).shape(), (Shape{kCount, 1, 3, 4}));
  EXPECT_THROW(all_of(transform(pictures(), {RandomCrop{6, 2, 1}})), ShapeError);
}

TEST(Transforms, CutoutBlanksASquare) {
  std::set<std::size_t> sizes;
  for (const Values& values : distinct_rows(all_of(transform(pictures(), {Cutout{2, 0}})))) {
    sizes.insert(static_cast<std::size_t>(std::count(values.begin(), values.end(), 0.0f)));
  }
  EXPECT_EQ(sizes, (std::set<std::size_t>{1, 2, 4}));  // less at the edges
}

Values warped(const AffineMap& map, float fill = 0) {
  Picture picture{1, 3, 4, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {}};
  warp(picture, map, fill);
  return picture.values;
}

TEST(Transforms, WarpsAreBilinear) {
  EXPECT_EQ(warped({{1, 0, 0, 0, 1, 0}}), (Values{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(warped({{1, 0, 1, 0, 1, 0}}, -1), (Values{2, 3, 4, -1, 6, 7, 8, -1, 10, 11, 12, -1}));
  EXPECT_EQ(warped({{1, 0, 0.5f, 0, 1, 0}}), (Values{1.5f, 2.5f, 3.5f, 2, 5.5f, 6.5f, 7.5f, 4, 9.5f, 10.5f, 11.5f, 6}));
  EXPECT_EQ(warped({{1, 0, 0, 0, 1, -0.25f}}), (Values{.75f, 1.5f, 2.25f, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(warped({{0, 0, 1e30f, 0, 0, -1e30f}}, 5), Values(12, 5.0f));                       // far outside
  EXPECT_EQ(warped({{-1, 0, 3, 0, -1, 2}}), (Values{12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}));  // half a turn
}

TEST(Transforms, AffineMapsAreAboutTheMiddle) {
  RandomStream random(1, Purpose::augment, 0, 0);
  const AffineMap still = draw_affine({}, 28, 28, random);
  EXPECT_EQ(Values(still.m, still.m + 6), (Values{1, 0, 0, 0, 1, 0}));
  // A scale of 2 leaves the middle where it is.
  const AffineMap twice = draw_affine({.scale_min = 2, .scale_max = 2}, 5, 9, random);
  EXPECT_EQ(Values(twice.m, twice.m + 6), (Values{0.5f, 0, 2, 0, 0.5f, 1}));
  for (int i = 0; i < 100; ++i) {
    const AffineMap map = draw_affine({.degrees = 30, .translate = 0.1f, .shear = 10}, 21, 21, random);
    EXPECT_NEAR(map.m[0] * map.m[4] - map.m[1] * map.m[3], 1, 1e-5);  // turning and shearing keep areas
    EXPECT_LE(std::fabs(map.m[3]), 0.5f + 1e-5f);                     // the sine of 30 degrees
    EXPECT_NEAR(map.m[3] * 10 + map.m[4] * 10 + map.m[5], 10, 2.1 * 1.37);
  }
}

TEST(Transforms, DependOnSeedEpochAndIndexAlone) {
  const DatasetPtr dataset = transform(
      pictures(), {RandomCrop{.padding = 1}, RandomHorizontalFlip{},
                   RandomAffine{.degrees = 10, .translate = 0.1f, .scale_min = 0.9f, .scale_max = 1.1f, .shear = 5}});
  const Tensor input = all_of(dataset);
  EXPECT_EQ(input.hash(), all_of(dataset).hash());
  EXPECT_NE(input.hash(), all_of(dataset, 2).hash());
  EXPECT_NE(input.hash(), all_of(dataset, 1, 1).hash());
  const std::vector<std::int64_t> some = {7, 3};
  const Tensor two = dataset->fetch({some, 1, 0}).input;
  EXPECT_EQ(two.select(0, 0).hash(), input.select(0, 7).hash());
  EXPECT_EQ(two.select(0, 1).hash(), input.select(0, 3).hash());
  EXPECT_GT(distinct_rows(input).size(), 35u);
}

TEST(Transforms, ThreadsChangeNothing) {
  const DatasetPtr dataset = transform(pictures(), {RandomCrop{.padding = 1}, RandomHorizontalFlip{}});
  std::vector<std::uint64_t> expected;
  for (const int workers : {0, 3}) {
    DataLoader loader(dataset, {.batch_size = 8, .shuffle = true, .seed = 4, .workers = workers});
    std::vector<std::uint64_t> hashes;
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (const Batch& batch : loader) hashes.push_back(batch.input.hash());
    }
    if (workers == 0) expected = hashes;
    EXPECT_EQ(hashes, expected);
  }
  EXPECT_EQ(std::set<std::uint64_t>(expected.begin(), expected.end()).size(), expected.size());
}

TEST(Transforms, RefuseWhatIsNoPicture) {
  EXPECT_THROW(all_of(transform(std::make_shared<TensorDataset>(zeros({2, 3})), {})), ShapeError);
  EXPECT_THROW(all_of(transform(std::make_shared<TensorDataset>(zeros({2, 1, 0, 4})), {})), ShapeError);
  EXPECT_THROW(all_of(transform(std::make_shared<TensorDataset>(zeros({2, 1, 3, 4}, {.dtype = DType::i64})), {})),
               DTypeError);
  EXPECT_THROW(transform(nullptr, {}), ValueError);
  for (const Transform& step : std::vector<Transform>{
           RandomCrop{-1}, RandomCrop{.padding = -1}, RandomHorizontalFlip{1.5f}, RandomHorizontalFlip{std::nanf("")},
           Normalize{}, Normalize{{0}, {0}}, RandomAffine{.degrees = -1}, RandomAffine{.scale_min = 0},
           RandomAffine{.scale_min = 2, .scale_max = 1}, RandomAffine{.shear = 90}, Cutout{-1}}) {
    EXPECT_THROW(transform(pictures(), {step}), ValueError) << step.index();
  }
}

}  // namespace
}  // namespace lockstep::data
