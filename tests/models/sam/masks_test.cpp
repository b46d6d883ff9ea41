#include <gtest/gtest.h>

#include "models/sam/sam_models.h"

namespace lockstep {
inline namespace v0 {
namespace {

using namespace sam_tests;

TEST(SamMasks, RunsGoColumnByColumn) {
  const std::vector<std::uint8_t> mask{0, 1, 1,  //
                                       1, 1, 0};
  const models::RunLengths runs = models::encode_runs(mask, 3, 2);
  EXPECT_EQ(runs.counts, (std::vector<std::uint32_t>{1, 4, 1}));
  EXPECT_EQ(models::decode_runs(runs), mask);
  EXPECT_EQ(models::encode_runs(std::vector<std::uint8_t>{1, 0}, 2, 1).counts, (std::vector<std::uint32_t>{0, 1, 1}));
  EXPECT_EQ(models::encode_runs(std::vector<std::uint8_t>(6), 3, 2).counts, (std::vector<std::uint32_t>{6}));
  EXPECT_THROW(models::encode_runs(mask, 2, 2), ValueError);
  EXPECT_THROW(models::encode_runs({}, 0, 0), ValueError);
  EXPECT_THROW(models::decode_runs({.width = 3, .height = 2, .counts = {1, 4}}), ValueError);
}

TEST(SamMasks, AreasAndBoxesAreThoseOfThePixels) {
  // Of random pixels in a random rectangle, and of columns that a run joins.
  std::uint32_t state = 12345;
  const auto random = [&](int limit) {
    state = state * 1664525 + 1013904223;
    return static_cast<int>((state >> 8) % static_cast<std::uint32_t>(limit));
  };
  for (int trial = 0; trial < 200; ++trial) {
    const int width = 1 + random(9);
    const int height = 1 + random(9);
    const int left = random(width);
    const int top = random(height);
    const int most = 1 + random(4);  // 1: all pixels
    std::vector<bool> pixels(static_cast<std::size_t>(width * height));
    models::PixelBox box{width, height, -1, -1};
    std::int64_t area = 0;
    for (int y = top; y < height; ++y) {
      for (int x = left; x < width; ++x) {
        if (random(most) != 0) continue;
        pixels[static_cast<std::size_t>(y * width + x)] = true;
        box = {std::min(box.x0, x), std::min(box.y0, y), std::max(box.x1, x), std::max(box.y1, y)};
        ++area;
      }
    }
    if (area == 0) box = {};
    const SamPrediction prediction{.masks = Tensor::from(pixels, {1, height, width}), .iou = {0.5f}};
    const models::SamMask mask = models::masks_of(prediction).front();
    EXPECT_EQ(mask.area, area) << "trial " << trial;
    EXPECT_EQ(mask.box, box) << "trial " << trial;
    EXPECT_EQ(mask.iou, 0.5f);
  }
}

TEST(SamMasks, AreDrawn) {
  const SamPrediction prediction{
      .masks = Tensor::from(std::vector<bool>{true, true, true, false, true, false, false, false}, {2, 2, 2}),
      .iou = {0.2f, 0.9f}};
  EXPECT_EQ(prediction.best(), 1u);
  const std::vector<models::SamMask> masks = models::masks_of(prediction);
  EXPECT_EQ(models::draw_mask(masks[1]).pixels, (std::vector<std::uint8_t>{255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  const io::Image segments = models::draw_segments(2, 2, masks);
  // The smaller mask lies over the larger one, and outside both it is black.
  EXPECT_NE(segments.pixels[0], segments.pixels[3]);
  EXPECT_EQ((std::vector<std::uint8_t>(segments.pixels.begin() + 9, segments.pixels.end())),
            (std::vector<std::uint8_t>{0, 0, 0}));
  io::Image picture = sam_picture(2, 2);
  EXPECT_EQ(models::draw_overlay(picture, {}), picture);
  EXPECT_NE(models::draw_overlay(picture, masks), picture);
  EXPECT_NE(models::draw_overlay(picture, {}, {.points = {{1, 1}}}), picture);
  EXPECT_THROW(models::draw_overlay(sam_picture(3, 2), masks), ValueError);
  EXPECT_THROW(models::draw_segments(3, 2, masks), ValueError);
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
