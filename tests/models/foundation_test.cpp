// Small versions of CLIP, DINOv2 and YOLOv8 against what transformers, torchvision and a network written in PyTorch
// compute (tests/data/foundation.safetensors, tools/foundation_goldens.py), and what is made of their results.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include <lockstep/lockstep.h>
#include <nlohmann/json.hpp>

#include "support/data.h"
#include "support/noise.h"
#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

using models::Detection;

const io::TensorFile& foundation() {
  static const io::TensorFile file = io::load_safetensors(test::repository_data("foundation.safetensors").string());
  return file;
}

// The same keys, the same results, and equal bits on every device.
void expect_golden(nn::Module& model, const std::string& keys, const std::string& name, double most,
                   const std::function<Tensor(Device)>& compute) {
  SCOPED_TRACE(name);
  const NoGrad no_grad;
  test::set_noise_weights(model);
  EXPECT_EQ(test::keys_of(model), nlohmann::json::parse(foundation().metadata.at(keys)));
  std::vector<Tensor> results;
  for (const Device& device : test_devices()) {
    model.to(device);
    results.push_back(compute(device).to(Device{}));
    EXPECT_BITS_EQ(results.back(), results.front()) << device.to_string();
  }
  const Tensor expected = foundation().tensors.at(name);
  ASSERT_EQ(results.front().shape(), expected.shape());
  EXPECT_LT(amax(abs(results.front() - expected)).item<double>(), most);
}

models::YoloV8Options small_yolo() {
  return {.width = 0.125, .classes = 5};
}

models::ClipOptions small_clip() {
  return {.text = {.channels = 24, .heads = 2, .depth = 2, .mlp_channels = 40},
          .vision = {.channels = 32, .heads = 2, .depth = 2, .mlp_channels = 48},
          .vocabulary = 50,
          .context = 12,
          .image_size = 24,
          .patch = 8,
          .projection = 16};
}

TEST(Foundation, YoloGivesWhatPyTorchGives) {
  models::YoloV8 model(small_yolo());
  expect_golden(model, "yolo", "yolo", 2e-4, [&](Device device) {
    return model(test::noise_picture({2, 3, 64, 96}).to(device));
  });
}

TEST(Foundation, ClipGivesWhatTransformersGives) {
  models::Clip model(small_clip());
  const Tensor tokens = foundation().tensors.at("clip.tokens");
  expect_golden(model, "clip", "clip", 1e-5, [&](Device device) {
    const Tensor images = model.image_features(test::noise_picture({2, 3, 24, 24}).to(device));
    return model.logits(images, model.text_features(tokens.to(device)));
  });
}

TEST(Foundation, ATextsFeaturesDoNotDependOnItsFilling) {
  const NoGrad no_grad;
  models::Clip model(small_clip());
  test::set_noise_weights(model);
  const Tensor alone = model.text_features(Tensor::from(std::vector<std::int64_t>{48, 3, 7, 49}, {1, 4}));
  const Tensor filled =
      model.text_features(Tensor::from(std::vector<std::int64_t>{48, 3, 7, 49, 49, 49, 49, 1}, {1, 8}));
  EXPECT_BITS_EQ(alone, filled);
}

TEST(Foundation, AClassifierOfTextsHasClipsWeightsAndLogits) {
  const NoGrad no_grad;
  models::Clip model(small_clip());
  test::set_noise_weights(model);
  const Tensor tokens = foundation().tensors.at("clip.tokens");
  models::ClipClassifier classifier(small_clip(), tokens);
  classifier.load_state_dict(model.state_dict());
  const Tensor picture = test::noise_picture({2, 3, 24, 24});
  EXPECT_BITS_EQ(classifier(picture), model.logits(model.image_features(picture), model.text_features(tokens)));
}

TEST(Foundation, ClipKnowsItsOptionsFromItsWeights) {
  const models::Clip model({.text = {.channels = 64, .heads = 1, .depth = 3, .mlp_channels = 40},
                            .vision = {.channels = 128, .heads = 2, .depth = 2, .mlp_channels = 48},
                            .vocabulary = 50,
                            .context = 12,
                            .image_size = 24,
                            .patch = 8,
                            .projection = 16});
  nn::StateDict weights = model.state_dict();
  weights.push_back("text_model.embeddings.position_ids", zeros({1, 12}, {DType::i64}));
  const auto loaded = models::Clip::load(weights);
  EXPECT_EQ(loaded->options().text.depth, 3);
  EXPECT_EQ(loaded->options().vision.heads, 2);
  EXPECT_EQ(loaded->options().image_size, 24);
  expect_error<ValueError>([] { models::Clip::load({}); }, {"no weights of CLIP"});
  expect_error<ShapeError>([&] { loaded->image_features(zeros({1, 3, 24, 32})); }, {"[N, 3, 24, 24]", "pictures"});
  expect_error<ShapeError>([&] { loaded->text_features(zeros({1, 13}, {DType::i64})); }, {"from 1 to 12"});
  EXPECT_THROW(models::Clip({.patch = 33}), ValueError);
}

TEST(Foundation, DinoV2GivesWhatTransformersGives) {
  models::DinoV2 model({.channels = 24, .heads = 2, .depth = 2, .mlp_channels = 48, .patch = 7, .image_size = 28});
  expect_golden(model, "dinov2", "dinov2", 2e-5, [&](Device device) {
    return model.hidden_states(test::noise_picture({2, 3, 28, 28}).to(device));
  });
  expect_golden(model, "dinov2", "dinov2.resized", 2e-5, [&](Device device) {
    return model.hidden_states(test::noise_picture({2, 3, 35, 21}).to(device));
  });
}

TEST(Foundation, DinoV2KnowsItsOptionsFromItsWeights) {
  const models::DinoV2 model(
      {.channels = 128, .heads = 2, .depth = 2, .mlp_channels = 48, .patch = 7, .image_size = 28});
  nn::StateDict renamed;  // as transformers 5 saves it
  for (const auto& [key, tensor] : model.state_dict()) {
    const std::string published = ".attention.attention.query.";
    const std::size_t place = key.find(published);
    const std::string name = place == std::string::npos
                                 ? key
                                 : key.substr(0, place) + ".attention.q_proj." + key.substr(place + published.size());
    renamed.push_back(name, tensor);
  }
  const auto loaded = models::DinoV2::load(renamed);
  EXPECT_EQ((*loaded)(zeros({2, 3, 14, 21})).shape(), (Shape{2, 128}));
  expect_error<ShapeError>([&] { (*loaded)(zeros({1, 3, 15, 14})); }, {"multiples of 7"});
  expect_error<ValueError>([] { models::DinoV2::load({}); }, {"no weights of DINOv2"});
  EXPECT_THROW(models::DinoV2({.heads = 5}), ValueError);
}

TEST(Detection, SuppressionKeepsWhatTorchvisionKeeps) {
  const auto& tensors = foundation().tensors;
  const std::vector<float> corners = tensors.at("nms.boxes").to_vector<float>();
  const std::vector<float> scores = tensors.at("nms.scores").to_vector<float>();
  const std::vector<std::int64_t> labels = tensors.at("nms.labels").to_vector<std::int64_t>();
  std::vector<Detection> boxes;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const float* corner = &corners[4 * i];
    boxes.push_back({static_cast<int>(labels[i]), scores[i], corner[0], corner[1], corner[2], corner[3]});
  }
  for (const double iou : {0.3, 0.7}) {
    std::vector<std::int64_t> kept;
    for (const std::size_t i : models::suppress_overlaps(boxes, iou, boxes.size())) {
      kept.push_back(static_cast<std::int64_t>(i));
    }
    EXPECT_EQ(kept, tensors.at(iou == 0.3 ? "nms.kept 0.3" : "nms.kept 0.7").to_vector<std::int64_t>());
  }
  EXPECT_EQ(models::suppress_overlaps(boxes, 0.7, 3).size(), 3u);
}

TEST(Detection, SuppressionOfOddBoxes) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Detection> boxes{
      {0, nan, 0, 0, 1, 1}, {0, 0.5f, 3, 3, 3, 3}, {0, 0.5f, 3, 3, 3, 3}, {0, 0.9f, 0, 0, 1, 1}};
  // Boxes without area overlap nothing: 0 / 0 exceeds no threshold. Not a number is worse than any score.
  EXPECT_EQ(models::suppress_overlaps(boxes, 0.5, 9), (std::vector<std::size_t>{3, 1, 2}));
  EXPECT_TRUE(models::suppress_overlaps({}, 0.5, 9).empty());
}

// A network whose head says what a test wants: in the box of one place.
TEST(Detection, BoxesAreInPixelsOfThePictureAsItWasGiven) {
  models::YoloV8 model({.width = 0.125, .classes = 2});
  nn::StateDict weights;
  for (const auto& [key, tensor] : model.state_dict()) {
    if (key.ends_with("cv3.0.2.bias")) {
      weights.push_back(key, Tensor::from<float>({-20, 3}, {2}));  // class 1, everywhere on the finest level
    } else if (key.ends_with(".bias") && key.find("cv3") != std::string::npos && key.ends_with("2.bias")) {
      weights.push_back(key, Tensor::from<float>({-20, -20}, {2}));
    } else if (key.find("cv2.0.2.bias") != std::string::npos) {
      std::vector<float> bins(64, -50.0f);
      for (std::size_t side = 0; side < 4; ++side) bins[16 * side + 2] = 50;  // each side two cells, 16 pixels, away
      weights.push_back(key, Tensor::from(bins, {64}));
    } else if (key.ends_with("2.weight") &&
               (key.find("22.cv2") != std::string::npos || key.find("22.cv3") != std::string::npos)) {
      weights.push_back(key, zeros(tensor.shape()));
    } else {
      weights.push_back(key, tensor);
    }
  }
  model.load_state_dict(weights);
  model.eval();
  const io::Image picture{.width = 64, .height = 32, .pixels = std::vector<std::uint8_t>(64 * 32 * 3, 90)};
  // Twice as large inside: 128 x 64, places 8 pixels apart, so boxes of 16 x 16 pixels of the picture, 4 apart.
  const auto found = models::detect(model, picture, {.iou = 0.2, .size = 128});
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0], (Detection{1, 1 / (1 + std::exp(-3.0f)), 0, 0, 10, 10})) << found[0].x1 << " " << found[0].score;
  for (const Detection& one : found) {
    EXPECT_EQ(one.label, 1);
    EXPECT_GE(one.x0, 0);
    EXPECT_LE(one.x1, 64);
    EXPECT_LE(one.y1, 32);
  }
  EXPECT_EQ(models::detect(model, picture, {.iou = 1, .most = 7, .size = 128}).size(), 7u);
  EXPECT_EQ(models::detect(model, picture, {.iou = 1, .size = 128}).size(), 128u);
  EXPECT_TRUE(models::detect(model, picture, {.confidence = 0.96}).empty());
  // A picture that is higher than wide is framed left and right.
  const io::Image high{.width = 10, .height = 64, .pixels = std::vector<std::uint8_t>(64 * 10 * 3, 90)};
  for (const Detection& one : models::detect(model, high, {.iou = 1, .size = 64})) EXPECT_LE(one.x1, 10);
}

TEST(Detection, RefusesWhatMakesNoSense) {
  const models::YoloV8 model(small_yolo());
  const io::Image picture{.width = 2, .height = 2, .pixels = std::vector<std::uint8_t>(12)};
  EXPECT_THROW(models::detect(model, picture, {.confidence = 1.5}), ValueError);
  EXPECT_THROW(models::detect(model, picture, {.iou = -1}), ValueError);
  EXPECT_THROW(models::detect(model, picture, {.most = 0}), ValueError);
  EXPECT_THROW(models::detect(model, picture, {.size = 100}), ValueError);
  EXPECT_THROW(models::detect(model, {}), ValueError);
  expect_error<ShapeError>([&] { model(zeros({1, 3, 40, 64})); }, {"multiples of 32"});
  EXPECT_THROW(models::YoloV8({.classes = 0}), ValueError);
}

TEST(Detection, YoloKnowsItsSizeFromItsWeights) {
  models::YoloV8Options options = models::YoloV8Options::of(models::YoloSize::n);
  options.classes = 3;
  const models::YoloV8 model(options);
  const auto loaded = models::YoloV8::load(model.state_dict());
  EXPECT_EQ(loaded->classes(), 3);
  EXPECT_EQ(loaded->parameter_count(), model.parameter_count());
  // 3,157,200 of the published network with 80 classes, 16 of them the bins.
  EXPECT_EQ(models::YoloV8().parameter_count(), 3157200);
  expect_error<ValueError>([] { models::YoloV8::load({}); }, {"no weights of YOLOv8", "state_dict"});
  nn::StateDict fused;
  for (const auto& [key, tensor] : model.state_dict()) {
    if (key.find(".bn.") == std::string::npos) fused.push_back(key, tensor);
  }
  expect_error<ValueError>([&] { models::YoloV8::load(fused); }, {"folded"});
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
