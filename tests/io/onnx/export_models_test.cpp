// Exports of every network: loaded again they give the same bits.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include <lockstep/lockstep.h>

#include "io/onnx/exported.h"
#include "support/data.h"

namespace lockstep::io {
namespace {

TEST(OnnxExport, ConvolutionalNetworksComeBackWithTheSameBits) {
  using namespace models;
  MobileNetV2 mobile2(5, MobileNetV2Options{.stages = {{1, 8, 1, 1}, {6, 16, 2, 2}, {3, 16, 1, 1}}});
  check_layer("mobilenet_v2", mobile2, {2, 3, 32, 32}, kAnyBatch);
  MobileNetV3 mobile3(
      5, MobileNetV3Options{.blocks = {{3, 16, 16, true, false, 2}, {5, 40, 24, false, true, 1}}, .hidden = 48});
  check_layer("mobilenet_v3", mobile3, {2, 3, 32, 32}, kAnyBatch);
  EfficientNet efficient(5, EfficientNetOptions{.stem = 16, .stages = {{1, 3, 1, 8, 1}, {6, 3, 2, 16, 2}}});
  check_layer("efficientnet", efficient, {2, 3, 32, 32}, kAnyBatch);
  VGG vgg(5, VGGOptions{.channels = {8, VGGOptions::kPool, 16, VGGOptions::kPool}, .hidden = 24});
  check_layer("vgg", vgg, {2, 3, 28, 28}, kAnyBatch);
  RegNet regnet(
      5, RegNetOptions{
             .depth = 5, .width = 16, .slope = 10.5, .step = 1.8, .group_width = 8, .squeeze = 0.25, .stem = 16});
  check_layer("regnet_y", regnet, {2, 3, 64, 64}, kAnyBatch);
  ConvNeXt convnext(5, ConvNeXtOptions{.channels = {8, 16, 24, 32}, .blocks = {1, 1, 2, 1}});
  check_layer("convnext", convnext, {2, 3, 64, 64}, kAnyBatch);
  LeNet lenet(10);
  check_layer("lenet", lenet, {2, 1, 28, 28}, kAnyBatch);
  MLP mlp(10, 64);
  check_layer("mlp", mlp, {2, 64}, kAnyBatch);
}

TEST(OnnxExport, WholeNetworksComeBackWithTheSameBits) {
  using namespace models;
  ResNet resnet(5, 18);
  check_layer("resnet18", resnet, {1, 3, 64, 64}, kAnyBatch);
  CifarResNet cifar(10, 20);
  check_layer("resnet20-cifar", cifar, {2, 3, 32, 32}, kAnyBatch);
  const auto squeeze = architecture("squeezenet1_1").create(5);
  check_layer("squeezenet1_1", *squeeze, {1, 3, 64, 64}, kAnyBatch);
}

TEST(OnnxExport, DetectorsComeBackWithTheSameBits) {
  models::YoloV8 yolo(models::YoloV8Options{.depth = 1.0 / 3, .width = 0.125, .classes = 3});
  check_layer("yolov8", yolo, {1, 3, 64, 64}, kAnyBatch);
}

TEST(OnnxExport, VisionTransformersComeBackWithTheSameBits) {
  using namespace models;
  VisionTransformer vit(5,
                        VisionTransformerOptions{
                            .image_size = 32, .patch = 8, .depth = 2, .heads = 3, .channels = 24, .mlp_channels = 40});
  check_layer("vit", vit, {2, 3, 32, 32}, kAnyBatch);
  check_layer("vit_opset23", vit, {2, 3, 32, 32}, {.opset = 23});
  DinoV2 dino(DinoV2Options{.channels = 32, .heads = 2, .depth = 2, .mlp_channels = 64, .patch = 8, .image_size = 32});
  check_layer("dinov2", dino, {2, 3, 32, 32}, kAnyBatch);
}

TEST(OnnxExport, ClipsTowersComeBackWithTheSameBits) {
  models::Clip clip(models::ClipOptions{.text = {.channels = 64, .heads = 1, .depth = 2, .mlp_channels = 96},
                                        .vision = {.channels = 64, .heads = 1, .depth = 2, .mlp_channels = 96},
                                        .vocabulary = 60,
                                        .context = 9,
                                        .image_size = 32,
                                        .patch = 8,
                                        .projection = 24});
  test::set_noise_weights(clip);
  export_and_compare(
      "clip_vision", clip,
      [&](const std::vector<Tensor>& inputs) { return std::vector<Tensor>{clip.image_features(inputs[0])}; },
      {test::noise_picture({2, 3, 32, 32})}, kAnyBatch);
  const Tensor tokens = Tensor::from(std::vector<std::int64_t>{58, 5, 7, 59, 0, 58, 1, 2, 3, 59}, {2, 5});
  export_and_compare(
      "clip_text", clip,
      [&](const std::vector<Tensor>& inputs) { return std::vector<Tensor>{clip.text_features(inputs[0])}; }, {tokens});
}

TEST(OnnxExport, SegmentersEncoderComesBackWithTheSameBits) {
  struct Holder : nn::Module {
    models::SamTinyViT encoder{*this, "encoder", 16,
                               models::SamTinyViTOptions{.channels = {8, 16, 16, 32},
                                                         .depths = {1, 1, 2, 1},
                                                         .heads = {1, 2, 2, 2},
                                                         .windows = {7, 4, 7, 4},
                                                         .classes = 4}};
  };
  Holder holder;
  test::set_noise_weights(holder);
  export_and_compare(
      "mobile_sam_encoder", holder,
      [&](const std::vector<Tensor>& inputs) { return std::vector<Tensor>{holder.encoder.forward(inputs[0])}; },
      {test::noise_picture({1, 3, 64, 64})});
}

TEST(OnnxExport, SegmentersViTComesBackWithTheSameBits) {
  struct Holder : nn::Module {
    models::SamViT encoder{
        *this, "encoder", 64, 8,
        models::SamViTOptions{
            .channels = 16, .depth = 2, .heads = 2, .global_blocks = {1}, .window = 3, .mlp_ratio = 2, .patch = 8}};
  };
  Holder holder;
  test::set_noise_weights(holder);
  export_and_compare(
      "sam_vit_encoder", holder,
      [&](const std::vector<Tensor>& inputs) { return std::vector<Tensor>{holder.encoder.forward(inputs[0])}; },
      {test::noise_picture({1, 3, 64, 64})});
}

TEST(OnnxExport, TransformersComeBackWithTheSameBits) {
  nn::TransformerDecoder decoder(24, 3, 1, {.layer = {.dim_feedforward = 32}});
  test::set_noise_weights(decoder);
  export_and_compare(
      "transformer_decoder", decoder,
      [&](const std::vector<Tensor>& inputs) { return std::vector<Tensor>{decoder.forward(inputs[0], inputs[1])}; },
      {test::noise_picture({2, 6, 24}), test::noise_picture({4, 6, 24})});

  nn::TransformerEncoder encoder(24, 3, 2, {.layer = {.dim_feedforward = 32}});
  test::set_noise_weights(encoder);
  export_and_compare("transformer", encoder,
                     [&](const std::vector<Tensor>& inputs) { return std::vector<Tensor>{encoder.forward(inputs[0])}; },
                     {test::noise_picture({2, 6, 24})});
}

// Every family of the small test models, encoder-decoders with both of their inputs.
TEST(OnnxExport, LanguageModelsComeBackWithTheSameBits) {
  const auto root = test::test_data("lm");
  if (!std::filesystem::exists(root)) GTEST_SKIP() << "needs " << root;
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{1, 5, 9, 2, 7, 3, 4, 8, 6, 10}, {2, 5});
  const std::map<std::string, Tensor> pairs = {
      {"t5", ids.flip({1})}, {"t5v11", ids.flip({1})}, {"whisper", test::noise_picture({2, 80, 100})}};
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    const std::string family = entry.path().filename().string();
    if (!std::filesystem::exists(entry.path() / "config.json")) continue;
    SCOPED_TRACE(family);
    const auto model = models::load_language_model(entry.path().string());
    if (const auto pair = pairs.find(family); pair != pairs.end()) {
      export_and_compare(family, *model,
                         [&](const std::vector<Tensor>& inputs) {
                           return std::vector<Tensor>{model->forward_pair(inputs[0], inputs[1])};
                         },
                         {pair->second, ids}, {.input_names = {"input", "ids"}, .output_names = {"logits"}});
      continue;
    }
    export_and_compare(
        family, *model,
        [&](const std::vector<Tensor>& inputs) { return std::vector<Tensor>{model->forward(inputs[0])}; }, {ids},
        {.input_names = {"ids"}, .output_names = {"logits"}});
  }
}

TEST(OnnxExport, SegmentersDecoderComesBackWithTheSameBits) {
  models::Sam sam(models::SamOptions{.encoder = models::SamTinyViTOptions{.channels = {8, 16, 16, 32},
                                                                          .depths = {1, 1, 2, 1},
                                                                          .heads = {1, 2, 2, 2},
                                                                          .windows = {7, 4, 7, 4},
                                                                          .classes = 2},
                                     .image_size = 64,
                                     .decoder = {.channels = 16, .heads = 2, .mlp_channels = 24, .iou_channels = 16}});
  test::set_noise_weights(sam);
  const Tensor coordinates = Tensor::from(std::vector<float>{10, 20, 33, 50}, {1, 2, 2});
  const Tensor labels = Tensor::from(std::vector<std::int32_t>{1, 0}, {1, 2});
  export_and_compare("mobile_sam", sam,
                     [&](const std::vector<Tensor>& in) {
                       const Tensor features = sam.image_encoder().forward(in[0]);
                       const models::SamMaskLogits logits = sam.mask_decoder(
                           features, sam.prompt_encoder.grid_positions(), sam.prompt_encoder.points(in[1], in[2]),
                           sam.prompt_encoder.mask(std::nullopt), true);
                       return std::vector<Tensor>{logits.masks, logits.iou};
                     },
                     {test::noise_picture({1, 3, 64, 64}), coordinates, labels});
}

}  // namespace
}  // namespace lockstep::io
