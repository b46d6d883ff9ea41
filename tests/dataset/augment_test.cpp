// Vertical flips, stretched crops and colours: each against its definition, and the same whichever way it is fetched.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include <lockstep/data/transforms.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

namespace lockstep::data {
namespace {

using Values = std::vector<float>;

DatasetPtr copies(const Values& values, const Shape& shape, std::int64_t count = 60) {
  const Tensor one = Tensor::from(values, shape).unsqueeze(0);
  return std::make_shared<TensorDataset>(one.repeat({count, 1, 1, 1}));
}
Tensor all(const DatasetPtr& dataset) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(dataset->size()));
  std::iota(indices.begin(), indices.end(), 0);
  return dataset->fetch({indices, 1, 0}).input;
}
std::set<Values> distinct(const Tensor& batch) {
  std::set<Values> result;
  for (const Tensor& picture : batch.unbind(0)) result.insert(picture.to_vector<float>());
  return result;
}

TEST(Augment, FlipsSomeUpsideDown) {
  const DatasetPtr pictures = copies({1, 2, 3, 4, 5, 6}, {1, 3, 2});
  const std::set<Values> both = {{1, 2, 3, 4, 5, 6}, {5, 6, 3, 4, 1, 2}};
  EXPECT_EQ(distinct(all(transform(pictures, {RandomVerticalFlip{}}))), both);
  EXPECT_EQ(distinct(all(transform(pictures, {RandomVerticalFlip{1}}))), (std::set<Values>{{5, 6, 3, 4, 1, 2}}));
  EXPECT_THROW(transform(pictures, {RandomVerticalFlip{1.5f}}), ValueError);
}

TEST(Augment, AWholePictureIsStretchedAsByInterpolate) {
  const Values values = {0, 1, 4, 9, 2, 3, 5, 7, 8, 6, 1, 0};
  const RandomResizedCrop whole{
      .height = 5, .width = 7, .scale_min = 1, .scale_max = 1, .ratio_min = 4.0f / 3, .ratio_max = 4.0f / 3};
  const Tensor found = all(transform(copies(values, {1, 3, 4}, 1), {whole}));
  const Tensor expected =
      interpolate(Tensor::from(values, {1, 1, 3, 4}), {.size = {5, 7}, .mode = Interpolation::bilinear});
  EXPECT_LE(amax(abs(found - expected)).item<float>(), 1e-5f);
}

TEST(Augment, CropsAreOfTheSharesAndRatiosAskedFor) {
  // The pixel's value says where it is: differences along rows and columns are the strides of the crop.
  const std::int64_t side = 64;
  const Tensor x = arange(0, 64, 1, {.dtype = DType::f32});
  const Tensor place = stack({x.expand({side, side}), x.unsqueeze(1).expand({side, side})});
  const RandomResizedCrop step{.height = 16, .width = 16, .scale_min = 0.2f, .scale_max = 0.4f};
  const Tensor crops = all(transform(copies(place.to_vector<float>(), {2, side, side}), {step}));
  EXPECT_GT(distinct(crops).size(), 50u);
  for (const Tensor& crop : crops.unbind(0)) {
    const float width = 16 * (crop.index({0, 8, 9}) - crop.index({0, 8, 8})).item<float>();
    const float height = 16 * (crop.index({1, 9, 8}) - crop.index({1, 8, 8})).item<float>();
    const float share = width * height / (64.0f * 64.0f);
    EXPECT_GE(share, 0.2f * 0.93f);
    EXPECT_LE(share, 0.4f * 1.07f);
    EXPECT_GE(width / height, 0.75f * 0.93f);
    EXPECT_LE(width / height, 4.0f / 3 * 1.07f);
  }
  EXPECT_THROW(transform(copies({1}, {1, 1, 1}), {RandomResizedCrop{}}), ValueError);
  EXPECT_THROW(transform(copies({1}, {1, 1, 1}), {RandomResizedCrop{.height = 1, .width = 1, .scale_min = 0}}),
               ValueError);
}

TEST(Augment, WhereNoDrawFitsTheMiddleIsTaken) {
  const RandomResizedCrop step{.height = 2, .width = 2, .scale_min = 1, .scale_max = 1, .ratio_min = 1, .ratio_max = 1};
  const Tensor found = all(transform(copies({1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 4}, 1), {step}));
  EXPECT_EQ(found.to_vector<float>(), (Values{2, 3, 6, 7}));
}

TEST(Augment, BrightnessMultipliesAndStaysInRange) {
  const Tensor found = all(transform(copies({0.25f, 0.5f, 1}, {1, 1, 3}), {ColorJitter{.brightness = 0.5f}}));
  for (const Tensor& picture : found.unbind(0)) {
    const Values v = picture.to_vector<float>();
    EXPECT_EQ(v[1], 2 * v[0]);
    EXPECT_GE(v[0], 0.125f);
    EXPECT_LE(v[0], 0.375f);
    EXPECT_EQ(v[2], std::min(1.0f, 4 * v[0]));
  }
}

TEST(Augment, ContrastKeepsTheMeanAndSaturationTheGrey) {
  const Values colours = {0.5f, 0.25f, 0.5f, 0.75f, 0.25f, 0.5f};  // two pixels, channel by channel
  const auto grey = [](const Values& v, std::size_t i) {
    return 0.2989f * v[i] + 0.587f * v[2 + i] + 0.114f * v[4 + i];
  };
  for (const Tensor& p : all(transform(copies(colours, {3, 1, 2}), {ColorJitter{.contrast = 0.5f}})).unbind(0)) {
    const Values v = p.to_vector<float>();
    EXPECT_NEAR(grey(v, 0) + grey(v, 1), grey(colours, 0) + grey(colours, 1), 1e-4);
  }
  for (const Tensor& p : all(transform(copies(colours, {3, 1, 2}), {ColorJitter{.saturation = 0.3f}})).unbind(0)) {
    const Values v = p.to_vector<float>();
    for (const std::size_t i : {0u, 1u}) EXPECT_NEAR(grey(v, i), grey(colours, i), 1e-4);
  }
}

TEST(Augment, HueTurnsColoursAndLeavesGreyAlone) {
  const auto hue_of = [](const Values& v) {
    const float range = *std::max_element(v.begin(), v.end()) - *std::min_element(v.begin(), v.end());
    EXPECT_NEAR(range, 1, 1e-6);  // full colours stay full
    return v;
  };
  std::set<Values> seen;
  for (const Tensor& p : all(transform(copies({1, 0, 0}, {3, 1, 1}), {ColorJitter{.hue = 0.5f}})).unbind(0)) {
    seen.insert(hue_of(p.to_vector<float>()));
  }
  EXPECT_GT(seen.size(), 50u);
  const Tensor grey = all(transform(copies({0.5f, 0.5f, 0.5f}, {3, 1, 1}), {ColorJitter{.hue = 0.5f}}));
  EXPECT_EQ(distinct(grey), (std::set<Values>{{0.5f, 0.5f, 0.5f}}));
  EXPECT_THROW(all(transform(copies({1, 2}, {2, 1, 1}), {ColorJitter{}})), ShapeError);
  EXPECT_THROW(transform(copies({1}, {1, 1, 1}), {ColorJitter{.hue = 0.6f}}), ValueError);
}

}  // namespace
}  // namespace lockstep::data
