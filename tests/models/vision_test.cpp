// Small versions of torchvision's networks against what torchvision computes (tests/data/vision.safetensors): the same
// keys, the same logits. Weights and pictures are made by a formula that tools/vision_goldens.py has too.
#include <gtest/gtest.h>

#include <functional>

#include <lockstep/lockstep.h>
#include <nlohmann/json.hpp>

#include "support/data.h"
#include "support/noise.h"
#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

constexpr std::int64_t kVisionClasses = 5;

struct SmallNetwork {
  const char* name;
  std::function<std::unique_ptr<nn::Layer>()> build;
};

std::vector<SmallNetwork> small_networks() {
  using namespace models;
  return {
      {"mobilenet_v2",
       [] {
         return std::make_unique<MobileNetV2>(
             kVisionClasses, MobileNetV2Options{.stages = {{1, 8, 1, 1}, {6, 16, 2, 2}, {3, 16, 1, 1}}});
       }},
      {"mobilenet_v3",
       [] {
         return std::make_unique<MobileNetV3>(kVisionClasses,
                                              MobileNetV3Options{.blocks = {{3, 16, 16, true, false, 2},
                                                                            {5, 40, 24, false, true, 1},
                                                                            {5, 96, 24, true, true, 1},
                                                                            {3, 72, 32, true, false, 2}},
                                                                 .hidden = 48});
       }},
      {"efficientnet",
       [] {
         return std::make_unique<EfficientNet>(
             kVisionClasses,
             EfficientNetOptions{.stem = 16, .stages = {{1, 3, 1, 8, 1}, {6, 3, 2, 16, 2}, {4, 5, 2, 24, 2}}});
       }},
      {"convnext",
       [] {
         return std::make_unique<ConvNeXt>(kVisionClasses,
                                           ConvNeXtOptions{.channels = {8, 16, 24, 32}, .blocks = {1, 1, 2, 1}});
       }},
      {"vision_transformer",
       [] {
         return std::make_unique<VisionTransformer>(
             kVisionClasses,
             VisionTransformerOptions{
                 .image_size = 32, .patch = 8, .depth = 2, .heads = 3, .channels = 24, .mlp_channels = 40});
       }},
      {"vgg",
       [] {
         return std::make_unique<VGG>(
             kVisionClasses, VGGOptions{.channels = {8, VGGOptions::kPool, 16, 16, VGGOptions::kPool}, .hidden = 24});
       }},
      {"regnet_x",
       [] {
         return std::make_unique<RegNet>(
             kVisionClasses,
             RegNetOptions{.depth = 6, .width = 24, .slope = 24.48, .step = 2.54, .group_width = 16, .stem = 16});
       }},
      {"regnet_y",
       [] {
         return std::make_unique<RegNet>(
             kVisionClasses,
             RegNetOptions{
                 .depth = 5, .width = 16, .slope = 10.5, .step = 1.8, .group_width = 8, .squeeze = 0.25, .stem = 16});
       }},
  };
}

TEST(Vision, NetworksGiveWhatTorchvisionGives) {
  const io::TensorFile golden = io::load_safetensors(test::repository_data("vision.safetensors").string());
  EXPECT_EQ(golden.tensors.size(), small_networks().size());
  const NoGrad no_grad;
  for (const SmallNetwork& network : small_networks()) {
    SCOPED_TRACE(network.name);
    const auto model = network.build();
    test::set_noise_weights(*model);
    const auto expected = nlohmann::json::parse(golden.metadata.at(network.name));
    EXPECT_EQ(test::keys_of(*model), expected.at("keys"));
    const auto size = expected.at("picture").get<std::vector<std::int64_t>>();
    const Shape shape{2, 3, size[0], size[1]};
    const Tensor picture = test::noise_picture(shape);
    std::vector<Tensor> results;
    for (const Device& device : test_devices()) {
      model->to(device);
      results.push_back(model->forward(picture.to(device)).to(Device{}));
      EXPECT_BITS_EQ(results.back(), results.front()) << device.to_string();
    }
    const Tensor error = abs(results.front() - golden.tensors.at(network.name));
    EXPECT_LT(amax(error).item<float>(), 2e-5);
  }
}

TEST(Vision, EfficientNetsPicturesAreResizedBicubically) {
  io::Image picture{.width = 300, .height = 260};
  for (std::uint32_t i = 0; i < 300 * 260 * 3; ++i) {
    picture.pixels.push_back(static_cast<std::uint8_t>(i * 2654435761u >> 24));
  }
  const models::Preprocessing& rule = models::architecture("efficientnet_b0").preprocessing;
  const auto cropped = [&](io::ResizeFilter filter) {
    return io::center_crop(io::resize_shorter_side(picture, 256, filter), 224, 224);
  };
  EXPECT_EQ(models::fit(rule, picture), cropped(io::ResizeFilter::bicubic));
  EXPECT_EQ(models::fit(models::architecture("vgg16").preprocessing, picture), cropped(io::ResizeFilter::bilinear));
  io::Metadata metadata;
  for (const auto& [key, text] : models::to_metadata(rule)) metadata[key] = text;
  EXPECT_EQ(models::preprocessing_of(metadata), rule);
  metadata["picture.filter"] = "lanczos";
  expect_error<FormatError>([&] { models::preprocessing_of(metadata); }, {"\"picture.filter\" is \"lanczos\""});
}

TEST(Vision, PublishedVisionTransformersHaveOlderNames) {
  const models::ImageClassifier& row = models::architecture("vit_b_16");
  nn::StateDict old;
  old.push_back("encoder.layers.encoder_layer_11.mlp.linear_1.weight", zeros({1}));
  old.push_back("encoder.layers.encoder_layer_0.mlp.linear_2.bias", zeros({1}));
  old.push_back("encoder.layers.encoder_layer_0.mlp.3.weight", zeros({1}));
  const nn::StateDict current = row.with_current_names(old);
  EXPECT_NE(current.find("encoder.layers.encoder_layer_11.mlp.0.weight"), nullptr);
  EXPECT_NE(current.find("encoder.layers.encoder_layer_0.mlp.3.bias"), nullptr);
  EXPECT_NE(current.find("encoder.layers.encoder_layer_0.mlp.3.weight"), nullptr);
  EXPECT_EQ(current.size(), 3u);
}

TEST(Vision, OptionsThatDoNotFitAreRefused) {
  EXPECT_THROW(models::MobileNetV3(5, {}), ValueError);
  EXPECT_THROW(models::RegNet(5, {}), ValueError);
  EXPECT_THROW(models::RegNet(5, {.depth = 3, .width = 12}), ValueError);
  EXPECT_THROW(models::VisionTransformer(5, {.image_size = 30, .patch = 8}), ValueError);
  EXPECT_THROW(models::VisionTransformer(5, {.image_size = 32, .patch = 8, .heads = 5}), ValueError);
  const models::VisionTransformer model(5, {.image_size = 32, .patch = 8, .depth = 1, .heads = 1, .channels = 8});
  expect_error<ShapeError>(
      [&] {
        model.forward(zeros({1, 3, 32, 40}));
      },
      {"VisionTransformer: pictures must be [N, 3, 32, 32]", "vision_test.cpp"});
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
