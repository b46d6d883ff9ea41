#include <lockstep/io/image.h>

#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>

#include <lockstep/error.h>
#include <lockstep/io/safetensors.h>

#include "support/data.h"

namespace lockstep::io {
namespace {

// The stored pictures have one channel or three; ours have three.
Image resized_image(const Tensor& tensor) {
  Image image{.width = static_cast<int>(tensor.shape()[1]), .height = static_cast<int>(tensor.shape()[0])};
  const std::vector<std::uint8_t> values = tensor.to_vector<std::uint8_t>();
  if (tensor.shape()[2] == 3) {
    image.pixels = values;
  } else {
    for (const std::uint8_t value : values) image.pixels.insert(image.pixels.end(), 3, value);
  }
  return image;
}

TEST(Resize, EqualsPillow) {
  const TensorMap cases = load_safetensors(test::repository_data("resize.safetensors")).tensors;
  int compared = 0;
  for (const auto& [name, tensor] : cases) {
    int index = 0;
    char filter[16] = {};
    int height = 0;
    int width = 0;
    if (std::sscanf(name.c_str(), "%d.%15[a-z].%dx%d", &index, filter, &height, &width) != 4) continue;
    const Image source = resized_image(cases.at("src." + std::to_string(index)));
    const bool bilinear = std::string(filter) == "bilinear";
    const Image image = resize(source, width, height, bilinear ? ResizeFilter::bilinear : ResizeFilter::bicubic);
    EXPECT_EQ(image, resized_image(tensor)) << name;
    ++compared;
  }
  EXPECT_GT(compared, 30);
}

TEST(Resize, KeepsConstantsAndSizes) {
  Image gray{.width = 7, .height = 5, .pixels = std::vector<std::uint8_t>(105, 200)};
  for (const ResizeFilter filter : {ResizeFilter::bilinear, ResizeFilter::bicubic}) {
    const Image image = resize(gray, 64, 2, filter);
    EXPECT_EQ(image.pixels, std::vector<std::uint8_t>(64 * 2 * 3, 200));
    EXPECT_EQ(resize(gray, 7, 5, filter), gray);
  }
}

TEST(Resize, RefusesImpossibleSizes) {
  const Image image{.width = 1, .height = 1, .pixels = {1, 2, 3}};
  EXPECT_THROW(resize(image, 0, 1), ValueError);
  EXPECT_THROW(resize(image, 1, -1), ValueError);
  EXPECT_THROW(resize(image, 1 << 20, 1 << 20), ValueError);
  EXPECT_THROW(resize(Image{.width = 2, .height = 1, .pixels = {1, 2, 3}}, 1, 1), ValueError);
}

TEST(Resize, ShorterSideAndCropFollowTorchvision) {
  Image image{.width = 30, .height = 20};
  for (int i = 0; i < 600; ++i) image.pixels.insert(image.pixels.end(), {static_cast<std::uint8_t>(i), 0, 0});
  EXPECT_EQ(resize_shorter_side(image, 7).width, 10);  // 7 * 30 / 20 = 10.5, truncated
  EXPECT_EQ(resize_shorter_side(image, 7).height, 7);

  // Margins of 2.5 round to 2, of 3.5 to 4: Python's round().
  const Image crop = center_crop(image, 25, 13);
  EXPECT_EQ(crop.pixels[0], static_cast<std::uint8_t>(4 * 30 + 2));
  EXPECT_EQ(crop.width, 25);
  EXPECT_EQ(center_crop(image, 30, 20), image);
  EXPECT_THROW(center_crop(image, 31, 20), ValueError);
  EXPECT_THROW(center_crop(image, 0, 20), ValueError);
}

}  // namespace
}  // namespace lockstep::io
