// Pictures and prompts of all kinds, and those that make no sense.
#include <gtest/gtest.h>

#include <cmath>

#include "models/sam/sam_models.h"
#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

using namespace sam_tests;

TEST(Sam, PicturesOfAllSizesAreSegmented) {
  const std::unique_ptr<Sam> model = tiny_sam();
  for (const auto& [width, height] : {std::pair{1, 1}, {4000, 30}, {1, 700}, {64, 64}, {65, 63}}) {
    SCOPED_TRACE(std::to_string(width) + " x " + std::to_string(height));
    const SamEmbedding embedding = model->embed(sam_picture(width, height));
    const SamPrediction found = model->predict(embedding, {.points = {{width * 0.5, height * 0.5}}});
    EXPECT_EQ(found.masks.shape(), (Shape{3, height, width}));
    EXPECT_EQ(found.iou.size(), 3u);
    EXPECT_TRUE(std::isfinite(found.iou[0]));
  }
}

TEST(Sam, FramesFillTheSquare) {
  const std::unique_ptr<Sam> model = tiny_sam(1024);
  EXPECT_EQ(model->frame(769, 770), (models::SamFrame{769, 770, 1023, 1024}));
  EXPECT_EQ(model->frame(4000, 30), (models::SamFrame{4000, 30, 1024, 8}));
  EXPECT_EQ(model->frame(30000, 1), (models::SamFrame{30000, 1, 1024, 1}));
  EXPECT_EQ(model->frame(1, 1), (models::SamFrame{1, 1, 1024, 1024}));
  EXPECT_THROW(model->frame(0, 5), ValueError);
}

TEST(Sam, PicturesOfAllKindsAreSegmented) {
  const std::unique_ptr<Sam> model = tiny_sam();
  const auto load = [](const std::string& name) {
    return io::load_image(test::repository_data("images/" + name).string());
  };
  for (const char* name : {"gray8.png", "gray1_1x1.png", "gray16.png", "gray_alpha8.png", "rgba16.png", "cmyk.jpg"}) {
    SCOPED_TRACE(name);
    const SamEmbedding embedding = model->embed(load(name));
    EXPECT_EQ(embedding.features.shape(), (Shape{1, 32, 4, 4}));
    const SamPrediction found = model->predict(embedding, {.points = {{0.5, 0.5}}});
    EXPECT_EQ(found.masks.shape(), (Shape{3, embedding.frame.height, embedding.frame.width}));
  }
  // Grey is the same in all channels, before each is normalised.
  const Tensor grey = model->preprocess(load("gray8.png")).squeeze(0);
  const Tensor red = grey.select(0, 0) * 58.395 + 123.675;
  const Tensor blue = grey.select(0, 2) * 57.375 + 103.53;
  const models::SamFrame frame = model->frame(load("gray8.png").width, load("gray8.png").height);
  const Tensor difference = (red - blue).narrow(0, 0, frame.scaled_height).narrow(1, 0, frame.scaled_width);
  EXPECT_LT(amax(abs(difference)).item<float>(), 1e-3);
}

TEST(Sam, PaddingIsZero) {
  const std::unique_ptr<Sam> model = tiny_sam();
  const Tensor input = model->preprocess(sam_picture(32, 16));
  EXPECT_EQ(amax(abs(input.narrow(2, 32, 32))).item<float>(), 0);
  EXPECT_GT(amax(abs(input.narrow(2, 0, 32))).item<float>(), 0);
}

TEST(Sam, LargePicturesAreSegmented) {
  const std::unique_ptr<Sam> model = tiny_sam();
  const io::Image picture = sam_picture(3000, 2000);
  const SamEmbedding embedding = model->embed(picture);
  const SamPrediction found = model->predict(embedding, {.points = {{2999, 1999}}}, {.multimask = false});
  EXPECT_EQ(found.masks.shape(), (Shape{1, 2000, 3000}));
  const models::SamMask mask = models::masks_of(found).front();
  EXPECT_EQ(mask.area, sum(found.masks).item<std::int64_t>());
}

TEST(Sam, EmbeddingsOfOtherNetworksAreRefused) {
  const std::unique_ptr<Sam> model = tiny_sam();
  const SamEmbedding other = tiny_sam(128)->embed(sam_picture(40, 30));
  expect_error<ValueError>(
      [&] {
        model->predict(other, {.points = {{5, 5}}});
      },
      {"the embedding is of another network; this one has [1, 32, 4, 4]", "[1, 32, 8, 8]"});
  expect_error<ValueError>([&] { model->predict({}, {.points = {{5, 5}}}); }, {"embedding.features is an undefined"});
  SamEmbedding elsewhere = model->embed(sam_picture(40, 30));
  elsewhere.features = elsewhere.features.to(Device::parse("ref"));
  expect_error<DeviceError>(
      [&] {
        model->predict(elsewhere, {.points = {{5, 5}}});
      },
      {"Sam::predict: ", "on different devices"});
}

TEST(Sam, PromptsThatMakeNoSenseAreRefused) {
  const std::unique_ptr<Sam> model = tiny_sam();
  const SamEmbedding embedding = model->embed(sam_picture(40, 30));
  const auto refused = [&](const models::SamPrompt& prompt, const std::string& part) {
    expect_error<ValueError>([&] { model->predict(embedding, prompt); }, {part});
  };
  refused({}, "the prompt is empty");
  refused({.points = {{5, 5}, {41, 5}}}, "the point (41, 5) lies outside the picture of 40 x 30");
  refused({.points = {{5, -0.5}}}, "outside");
  refused({.points = {{std::nan(""), 3}}}, "outside");
  refused({.box = models::SamBox{1, 2, 41, 20}}, "the box (1, 2, 41, 20) is empty or reaches out");
  refused({.box = models::SamBox{10, 2, 10, 20}}, "is empty");
  refused({.mask = zeros({3, 8, 8})}, "[n, 16, 16]");
  refused({.mask = Tensor()}, "mask                 undefined");
  EXPECT_THROW(model->embed(io::Image{}), ValueError);
  expect_error<ValueError>([&] { model->predict(embedding, {}); },
                           {"Sam::predict: ", "fix: give a point", "prompts_test.cpp"});
  EXPECT_THROW(models::generate_masks(*model, embedding, {.points_per_side = 0}), ValueError);
  // A mask alone says enough.
  EXPECT_EQ(model->predict(embedding, {.mask = zeros({1, 16, 16})}).masks.shape(), (Shape{3, 30, 40}));
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
