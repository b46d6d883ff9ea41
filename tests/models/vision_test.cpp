// Small versions of torchvision's networks against what torchvision computes (tests/data/vision.safetensors): the same
// keys, the same logits. Weights and pictures are made by a formula that tools/vision_goldens.py has too.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include <lockstep/lockstep.h>
#include <nlohmann/json.hpp>

#include "support/data.h"
#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

constexpr std::int64_t kVisionClasses = 5;

// Multiples of 2^-23 in [-1, 1): FNV-1a of the name, then murmur's finaliser with the element's number.
std::vector<float> noise(std::string_view name, std::int64_t count) {
  std::uint32_t seed = 2166136261u;
  for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 16777619u;
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t x = seed + static_cast<std::uint32_t>(i) * 0x9E3779B9u;
    x = (x ^ x >> 16) * 0x85EBCA6Bu;
    x = (x ^ x >> 13) * 0xC2B2AE35u;
    x ^= x >> 16;
    values.push_back(static_cast<float>(x >> 8) / 8388608.0f - 1.0f);
  }
  return values;
}

// A weight that keeps activations of the order of 1.
Tensor value_of(std::string_view name, const Shape& shape) {
  std::vector<float> values = noise(name, shape.numel());
  float offset = 0;
  float scale = 0.25f;
  if (name.ends_with("running_var") || (shape.rank() == 1 && name.ends_with("weight"))) {
    offset = 1;
  } else if (shape.rank() >= 2 && !name.ends_with("layer_scale")) {
    const std::int64_t fan_in = shape.numel() / shape[0];
    int bits = 0;
    while (fan_in >> bits != 0) ++bits;
    scale = std::ldexp(1.5f, -((bits - 1) / 2));
  }
  for (float& value : values) value = offset + scale * value;
  return Tensor::from(values, shape);
}

void set_weights(nn::Module& model) {
  nn::StateDict weights;
  for (const auto& [name, tensor] : model.state_dict()) {
    if (!name.ends_with("num_batches_tracked")) weights.push_back(name, value_of(name, tensor.shape()));
  }
  model.load_state_dict(weights, {.strict = false});
  model.eval();
}

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
    set_weights(*model);
    const auto expected = nlohmann::json::parse(golden.metadata.at(network.name));
    nlohmann::json keys = nlohmann::json::object();
    for (const auto& [name, tensor] : model->state_dict()) {
      if (!name.ends_with("num_batches_tracked"))
        keys[name] = std::vector<std::int64_t>(tensor.shape().begin(), tensor.shape().end());
    }
    EXPECT_EQ(keys, expected.at("keys"));
    const auto size = expected.at("picture").get<std::vector<std::int64_t>>();
    const Shape shape{2, 3, size[0], size[1]};
    const Tensor picture = Tensor::from(noise("picture", shape.numel()), shape) * 2;
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
