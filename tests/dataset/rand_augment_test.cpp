// RandAugment: each op against torchvision's on the same bytes (tests/data/augment.safetensors), and what is drawn.
#include "data/rand_augment.h"

#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include <lockstep/data.h>
#include <lockstep/error.h>
#include <lockstep/io/safetensors.h>
#include <lockstep/ops.h>

#include "support/data.h"

namespace lockstep::data {
namespace {

constexpr std::array<const char*, kAugmentOps> kNames = {
    "Identity", "ShearX",   "ShearY",    "TranslateX", "TranslateY", "Rotate",       "Brightness",
    "Color",    "Contrast", "Sharpness", "Posterize",  "Solarize",   "AutoContrast", "Equalize"};

const io::SafetensorsReader& truth() {
  static const io::SafetensorsReader reader(test::repository_data("augment.safetensors").string());
  return reader;
}
Picture picture_of(const Tensor& bytes) {
  return {.channels = static_cast<int>(bytes.size(0)),
          .height = static_cast<int>(bytes.size(1)),
          .width = static_cast<int>(bytes.size(2)),
          .values = bytes.to(DType::f32).to_vector<float>()};
}

TEST(RandAugment, EveryOpGivesTorchvisionsBytes) {
  for (const char* name : {"noise", "dark", "grey", "flat"}) {
    const Tensor bytes = truth().load(std::string("picture.") + name);
    for (std::size_t op = 0; op < kNames.size(); ++op) {
      const auto magnitudes = truth().load(std::string("magnitude.") + kNames[op]).to_vector<float>();
      for (std::size_t i = 0; i < magnitudes.size(); ++i) {
        const std::string what = std::string(name) + "." + kNames[op] + "." + std::to_string(i);
        Picture picture = picture_of(bytes);
        apply_op(static_cast<AugmentOp>(op), magnitudes[i], 77, picture);
        EXPECT_EQ(picture.values, truth().load(what).to(DType::f32).to_vector<float>()) << what;
      }
    }
  }
}

TEST(RandAugment, MagnitudesAreTorchvisions) {
  for (const int bins : {31, 10}) {
    const std::string suffix = "." + std::to_string(bins);
    const auto space = truth().load("space" + suffix).to_vector<float>();
    const auto is_signed = truth().load("signed" + suffix).to_vector<std::int64_t>();
    for (std::size_t op = 0; op < kNames.size(); ++op) {
      for (int m = 0; m < bins; ++m) {
        const Magnitude found = magnitude_of(static_cast<AugmentOp>(op), {.magnitude = m, .bins = bins}, 19, 23);
        EXPECT_FLOAT_EQ(found.value, space[op * static_cast<std::size_t>(bins) + static_cast<std::size_t>(m)])
            << kNames[op] << m;
        EXPECT_EQ(found.is_signed, is_signed[op] == 1) << kNames[op];
      }
    }
  }
}

std::vector<std::int64_t> first_numbers(std::int64_t count) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(count));
  std::iota(result.begin(), result.end(), 0);
  return result;
}

TEST(RandAugment, DrawsEveryOpInEveryDirection) {
  const Tensor bytes = truth().load("picture.noise");
  const Tensor many = bytes.unsqueeze(0).repeat({400, 1, 1, 1});
  const auto set = transform(std::make_shared<TensorDataset>(many), {RandAugment{.ops = 1}});
  std::set<std::vector<float>> found;
  const Tensor batch = set->fetch({first_numbers(400), 1, 0}).input;
  for (const Tensor& picture : batch.unbind(0)) found.insert(picture.to_vector<float>());
  std::set<std::vector<float>> expected;
  for (int op = 0; op < kAugmentOps; ++op) {
    const auto kind = static_cast<AugmentOp>(op);
    const Magnitude magnitude = magnitude_of(kind, {}, 19, 23);
    for (const float sign : {1.0f, -1.0f}) {
      if (sign < 0 && !magnitude.is_signed) continue;
      Picture picture = picture_of(bytes);
      apply_op(kind, sign * magnitude.value, 0, picture);
      for (float& value : picture.values) value /= 255.0f;
      expected.insert(picture.values);
    }
  }
  EXPECT_EQ(found, expected);
}

TEST(RandAugment, IsTheSameForAnyNumberOfWorkers) {
  const Tensor many = truth().load("picture.noise").unsqueeze(0).repeat({24, 1, 1, 1});
  const auto set = transform(std::make_shared<TensorDataset>(many), {RandAugment{}, RandomVerticalFlip{}});
  const auto epoch = [&](int workers) {
    DataLoader loader(set, {.batch_size = 5, .shuffle = true, .seed = 3, .workers = workers});
    std::vector<float> all;
    for (const Batch& batch : loader) {
      const auto values = batch.input.to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  const std::vector<float> alone = epoch(0);
  EXPECT_EQ(epoch(1), alone);
  EXPECT_EQ(epoch(3), alone);
}

TEST(RandAugment, RefusesWhatMakesNoSense) {
  const auto set = std::make_shared<TensorDataset>(zeros({2, 2, 4, 4}));
  EXPECT_THROW(transform(set, {RandAugment{.ops = -1}}), ValueError);
  EXPECT_THROW(transform(set, {RandAugment{.magnitude = 31}}), ValueError);
  EXPECT_THROW(transform(set, {RandAugment{.bins = 1}}), ValueError);
  EXPECT_THROW(transform(set, {RandAugment{.fill = NAN}}), ValueError);
  EXPECT_THROW(transform(set, {RandAugment{}})->fetch({first_numbers(2), 1, 0}), ShapeError);
}

}  // namespace
}  // namespace lockstep::data
