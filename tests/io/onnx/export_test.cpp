// Exports of every network: loaded again they give the same bits, with the weights' names, and what cannot be written
// is refused with its reason. tools/check_onnx_export.py compares what LOCKSTEP_ONNX_EXPORTS=FOLDER keeps with ONNX
// Runtime.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include <lockstep/fft.h>
#include <lockstep/lockstep.h>

#include "support/data.h"
#include "support/files.h"
#include "support/noise.h"
#include "support/tensors.h"

namespace lockstep::io {
namespace {

using lockstep::test::message_of;
using lockstep::test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The folder that keeps the exports, or the one that vanishes.
std::string export_path(const TemporaryFolder& folder, const std::string& name) {
  const char* const kept = std::getenv("LOCKSTEP_ONNX_EXPORTS");
  return kept == nullptr ? folder.path(name) : (std::filesystem::path(kept) / name).string();
}

struct Exported {
  std::vector<Tensor> expected;
  std::unique_ptr<OnnxModel> model;
};

// Writes, keeps what a check by other means needs, and compares every output to the bit.
Exported export_and_compare(const std::string& name, const nn::Module& module, const OnnxFunction& function,
                            const std::vector<Tensor>& inputs, const OnnxExportOptions& options = {}) {
  const TemporaryFolder folder;
  const std::string path = export_path(folder, name + ".onnx");
  save_onnx(path, module, function, inputs, options);
  const NoGrad no_grad;
  Exported result{.expected = function(inputs), .model = load_onnx(path)};
  TensorMap given;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    given[result.model->inputs()[i].name] = inputs[i];
    if (std::getenv("LOCKSTEP_ONNX_EXPORTS") != nullptr)
      save_npy(export_path(folder, name + ".input_" + std::to_string(i) + ".npy"), inputs[i]);
  }
  const TensorMap outputs = result.model->run(given);
  EXPECT_EQ(outputs.size(), result.expected.size());
  for (std::size_t i = 0; i < result.expected.size(); ++i) {
    const Tensor& output = outputs.at(result.model->outputs()[i].name);
    EXPECT_BITS_EQ(output, result.expected[i]) << name << ", output " << i;
    if (std::getenv("LOCKSTEP_ONNX_EXPORTS") != nullptr)
      save_npy(export_path(folder, name + ".output_" + std::to_string(i) + ".npy"), result.expected[i]);
  }
  return result;
}

OnnxFunction forward_of(const nn::Layer& model) {
  return [&model](const std::vector<Tensor>& inputs) { return std::vector<Tensor>{model.forward(inputs[0])}; };
}

void check_layer(const std::string& name, nn::Layer& model, const Shape& shape, const OnnxExportOptions& options = {}) {
  SCOPED_TRACE(name);
  test::set_noise_weights(model);
  export_and_compare(name, model, forward_of(model), {test::noise_picture(shape)}, options);
}

const OnnxExportOptions kAnyBatch{.dynamic = {{0, 0, "batch"}}};

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
  const std::set<std::string> unknown = {"qwen3_next"};
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{1, 5, 9, 2, 7, 3, 4, 8, 6, 10}, {2, 5});
  const std::map<std::string, Tensor> pairs = {
      {"t5", ids.flip({1})}, {"t5v11", ids.flip({1})}, {"whisper", test::noise_picture({2, 80, 100})}};
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    const std::string family = entry.path().filename().string();
    if (!std::filesystem::exists(entry.path() / "config.json") || unknown.contains(family)) continue;
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

// A convolution, a norm and a classifier.
struct SmallNet : nn::Layer {
  nn::Conv2d conv{*this, "conv", 3, 4, 3};
  nn::BatchNorm2d bn{*this, "bn", 4};
  nn::Linear fc{*this, "fc", 4, 2};
  SmallNet() { test::set_noise_weights(*this); }
  Tensor forward(const Operand& x) const override { return fc(relu(bn(conv(x))).mean({2, 3})); }
};

TEST(OnnxExport, ParametersKeepTheirNamesAndNodesTheirModules) {
  const TemporaryFolder folder;
  const SmallNet net;
  save_onnx(folder.path("net.onnx"), net, {test::noise_picture({1, 3, 8, 8})});
  const auto model = load_onnx(folder.path("net.onnx"));
  const nn::StateDict weights = net.state_dict();
  const nn::StateDict state = model->state_dict();
  for (const char* const name : {"conv.weight", "conv.bias", "fc.weight", "fc.bias"}) {
    const Tensor* const loaded = state.find(name);
    ASSERT_NE(loaded, nullptr) << name;
    EXPECT_BITS_EQ(*loaded, *weights.find(name));
  }
  const std::string bytes = test::read_whole_file(folder.path("net.onnx"));
  EXPECT_THAT(bytes, AllOf(HasSubstr("/conv/Conv"), HasSubstr("/bn/BatchNormalization")));
  EXPECT_EQ(model->inputs()[0].name, "input");
  EXPECT_EQ(model->outputs()[0].name, "output");
  EXPECT_EQ(model->outputs()[0].shape->at(1).size, 2);
}

TEST(OnnxExport, DynamicSizesTakeOtherSizes) {
  const TemporaryFolder folder;
  const SmallNet net;
  save_onnx(folder.path("net.onnx"), net, {test::noise_picture({1, 3, 8, 8})}, {.dynamic = {{0, 0, "batch"}}});
  const auto model = load_onnx(folder.path("net.onnx"));
  EXPECT_EQ(model->inputs()[0].shape->at(0).symbol, "batch");
  EXPECT_EQ(model->outputs()[0].shape->at(0).symbol, "batch");
  const NoGrad no_grad;
  for (const std::int64_t batch : {1, 2, 7}) {
    const Tensor x = test::noise_picture({batch, 3, 8, 8});
    EXPECT_BITS_EQ(model->forward(x), net.forward(x)) << batch;
  }
}

TEST(OnnxExport, PicturesOfAnySizeAreTaken) {
  const TemporaryFolder folder;
  const SmallNet net;
  const std::vector<OnnxDynamicSize> any = {{0, 2, "height", 2}, {0, 3, "width", 2}, {0, 0, "batch"}};
  EXPECT_THAT(message_of<ValueError>([&] {  // it has height * width elements
                save_onnx(folder.path("a.onnx"), net,
                          [&](const std::vector<Tensor>& x) { return std::vector<Tensor>{net.conv(x[0]).flatten()}; },
                          {test::noise_picture({1, 3, 8, 8})}, {.dynamic = any});
              }),
              HasSubstr("is a product of it and another"));
  const OnnxFunction rows = [&](const std::vector<Tensor>& x) {
    const Tensor y = relu(net.bn(net.conv(x[0])));
    return std::vector<Tensor>{y, y.slice(2, {1, y.size(2) - 1}),
                               y.transpose(1, 2).reshape({y.size(0), y.size(2), 24})};
  };
  save_onnx(folder.path("net.onnx"), net, rows, {test::noise_picture({1, 3, 8, 8})},
            {.dynamic = {{0, 2, "height", 2}, {0, 0, "batch"}}});
  const auto model = load_onnx(folder.path("net.onnx"));
  const NoGrad no_grad;
  for (const Shape& shape : {Shape{1, 3, 8, 8}, Shape{3, 3, 14, 8}}) {
    const Tensor x = test::noise_picture(shape);
    const auto expected = rows({x});
    const TensorMap outputs = model->run({{"input", x}});
    for (std::size_t i = 0; i < 3; ++i) EXPECT_BITS_EQ(outputs.at("output_" + std::to_string(i)), expected[i]);
  }
}

TEST(OnnxExport, TransformersTakeOtherBatches) {
  const TemporaryFolder folder;
  models::VisionTransformer vit(
      5, models::VisionTransformerOptions{
             .image_size = 32, .patch = 8, .depth = 1, .heads = 2, .channels = 16, .mlp_channels = 24});
  test::set_noise_weights(vit);
  save_onnx(folder.path("vit.onnx"), vit, {test::noise_picture({1, 3, 32, 32})}, {.dynamic = {{0, 0, "batch"}}});
  const auto model = load_onnx(folder.path("vit.onnx"));
  const NoGrad no_grad;
  for (const std::int64_t batch : {1, 3}) {
    const Tensor x = test::noise_picture({batch, 3, 32, 32});
    EXPECT_BITS_EQ(model->forward(x), vit.forward(x)) << batch;
  }
}

TEST(OnnxExport, SizesThatTheComputationDependsOnCannotBeDynamic) {
  const TemporaryFolder folder;
  models::MLP mlp(10, 16);
  test::set_noise_weights(mlp);
  // Means divide by the number of their elements.
  const OnnxFunction function = [](const std::vector<Tensor>& x) { return std::vector<Tensor>{x[0].mean({1})}; };
  EXPECT_THAT(message_of<ValueError>([&] {
                save_onnx(folder.path("a.onnx"), mlp, function, {ones({2, 4})}, {.dynamic = {{0, 1, "length"}}});
              }),
              AllOf(HasSubstr("the size 'length' cannot be dynamic"), HasSubstr("mean")));
  EXPECT_TRUE(folder.names().empty());
}

TEST(OnnxExport, ManyBytesOfWeightsLieBesideTheModel) {
  const TemporaryFolder folder;
  models::MLP mlp(10, 64);
  test::set_noise_weights(mlp);
  save_onnx(folder.path("mlp.onnx"), mlp, {test::noise_picture({2, 64})}, {.external_data_above = 1000});
  EXPECT_THAT(folder.names(), ElementsAre("mlp.onnx", "mlp.onnx.data"));
  EXPECT_LT(std::filesystem::file_size(folder.path("mlp.onnx")), 10000U);
  const NoGrad no_grad;
  const Tensor x = test::noise_picture({2, 64});
  EXPECT_BITS_EQ(load_onnx(folder.path("mlp.onnx"))->forward(x), mlp.forward(x));
}

TEST(OnnxExport, OpsOfTensorsComeBackWithTheSameBits) {
  const nn::Linear unused(2, 2);
  const_cast<nn::Linear&>(unused).eval();
  const Tensor x = test::noise_picture({2, 3, 4, 6});
  const std::vector<std::pair<const char*, OnnxFunction>> cases = {
      {"slices",
       [](const auto& in) {
         return std::vector<Tensor>{in[0].slice(3, {.step = -2}), in[0].select(1, 2)};
       }},
      {"cat",
       [](const auto& in) {
         return std::vector<Tensor>{cat({in[0], in[0] * 2, full({2, 1, 4, 6}, 3.0)}, 1)};
       }},
      {"pads",
       [](const auto& in) {
         return std::vector<Tensor>{pad(in[0], {1, 2, 0, 1}, 7.5), pad(in[0], {1, 2, 2, 1}, PadMode::reflect)};
       }},
      {"chunks", [](const auto& in) { return in[0].chunk(3, 3); }},
      {"flips",
       [](const auto& in) {
         return std::vector<Tensor>{in[0].flip({2, 3}), roll(in[0], {2}, {3})};
       }},
      {"sorts",
       [](const auto& in) {
         return std::vector<Tensor>{argsort(in[0], 2, true), argmax(in[0], 3)};
       }},
      {"sums",
       [](const auto& in) {
         return std::vector<Tensor>{sum(in[0], {1, 3}), amax(in[0], {2}), prod(in[0], {3}), cumsum(in[0], 3),
                                    logsumexp(in[0], {1})};
       }},
      {"rows",
       [](const auto& in) {
         return std::vector<Tensor>{softmax(in[0], {2, 3}), log_softmax(in[0], 1)};
       }},
      {"conditions",
       [](const auto& in) {
         return std::vector<Tensor>{where(in[0] > 0.5, in[0], -in[0]), isfinite(in[0]),
                                    bitwise_and(in[0] > 0, in[0] != 1.0)};
       }},
      {"products",
       [](const auto& in) {
         return std::vector<Tensor>{matmul(in[0], in[0].transpose(2, 3)), einsum("bchw,bcdw->bhd", {in[0], in[0]})};
       }},
      {"sizes",
       [](const auto& in) {
         return std::vector<Tensor>{interpolate(in[0], {.scale_factor = {2}, .mode = Interpolation::bilinear}),
                                    interpolate(in[0], {.size = {7, 5}, .mode = Interpolation::nearest})};
       }},
      {"pools",
       [](const auto& in) {
         return std::vector<Tensor>{max_pool2d(in[0], {3, 3}, {.stride = {2, 2}, .padding = {1, 1}, .ceil_mode = true}),
                                    avg_pool2d(in[0], {2, 3}, {.padding = {1, 1}}), adaptive_avg_pool2d(in[0], {3, 4})};
       }},
      {"halves",
       [](const auto& in) {
         const Tensor h = in[0].to(DType::f16);
         return std::vector<Tensor>{h * 0.1 + h, softmax(h, 3), h.to(DType::f32)};
       }},
      {"transforms",
       [](const auto& in) {
         const Tensor pairs = in[0].reshape({2, 3, 4, 3, 2});
         return std::vector<Tensor>{fft::fft(pairs, {.dim = 1}), fft::ifft(pairs, {.n = 5}),
                                    fft::rfft(in[0], {.norm = fft::Norm::ortho})};
       }},
      {"activations",
       [](const auto& in) {
         return std::vector<Tensor>{elu(in[0], 0.7), softplus(in[0]), mish(in[0]), selu(in[0]), logsigmoid(in[0])};
       }},
      {"spreads",
       [](const auto& in) {
         const Tensor weight = full({6}, 1.5);
         return std::vector<Tensor>{var(in[0], {1, 3}), std(in[0], {2}, true), vector_norm(in[0], 2, {3}),
                                    rms_norm(in[0], {6}, weight), cosine_similarity(in[0], in[0] + 1.0, 1)};
       }},
      {"logarithms",
       [](const auto& in) {
         const Tensor a = abs(in[0]) + 0.25;
         return std::vector<Tensor>{log2(a), log10(a), log1p(a), exp2(in[0]), expm1(in[0]), rsqrt(a), erfc(in[0])};
       }},
      {"fractions",
       [](const auto& in) {
         return std::vector<Tensor>{trunc(in[0] * 3.0), frac(in[0] * 3.0), remainder(in[0], 0.3),
                                    floor_divide(in[0], 0.3)};
       }},
      {"pairs",
       [](const auto& in) {
         const Tensor turned = in[0].flip({3}) + 0.125;
         return std::vector<Tensor>{hypot(in[0], turned), logaddexp(in[0], turned), xlogy(in[0], abs(turned)),
                                    copysign(in[0], turned), atan2(in[0], turned)};
       }},
      {"integers",
       [](const auto& in) {
         const Tensor whole = (in[0] * 9.0).to(DType::i32);
         return std::vector<Tensor>{matmul(whole, whole.transpose(2, 3)),
                                    matmul(whole.to(DType::i64), whole.to(DType::i64).transpose(2, 3))};
       }},
      {"upconvolutions",
       [](const auto& in) {
         const Tensor weight = test::noise_picture({3, 2, 3, 2});
         return std::vector<Tensor>{
             conv_transpose2d(in[0], weight, std::nullopt, {.stride = {2, 3}}),
             conv_transpose2d(in[0], weight, full({2}, 0.5),
                              {.stride = {2, 3}, .padding = {1, 0}, .output_padding = {1, 2}, .dilation = {1, 2}})};
       }},
      {"scatters",
       [](const auto& in) {
         const Tensor index = argsort(in[0], 3);
         return std::vector<Tensor>{scatter(zeros_like(in[0]), 3, index, in[0]), gather(in[0], 3, index)};
       }},
  };
  for (const auto& [name, function] : cases) {
    SCOPED_TRACE(name);
    export_and_compare(name, unused, function, {x});
    export_and_compare(std::string(name) + "_opset23", unused, function, {x}, {.opset = 23});
  }
}

TEST(OnnxExport, OpsWithoutACounterpartAreAllNamed) {
  const TemporaryFolder folder;
  const SmallNet net;
  const OnnxFunction function = [&](const std::vector<Tensor>& x) {
    return std::vector<Tensor>{erfinv(net.forward(x[0])) + lgamma(x[0].mean())};
  };
  const std::string message = message_of<UnsupportedError>([&] {
    save_onnx(folder.path("net.onnx"), net, function, {test::noise_picture({1, 3, 8, 8})});
  });
  EXPECT_THAT(message, AllOf(HasSubstr("2 operations have no form in opset 17"), HasSubstr("erfinv"),
                             HasSubstr("lgamma"), HasSubstr("behind module 'fc'"), HasSubstr("export_test.cpp")));
  EXPECT_TRUE(folder.names().empty());
}

TEST(OnnxExport, BadRequestsAreRefused) {
  const TemporaryFolder folder;
  SmallNet net;
  const std::string path = folder.path("net.onnx");
  const std::vector<Tensor> x = {test::noise_picture({1, 3, 8, 8})};
  const auto said = [&](const OnnxExportOptions& options) {
    return message_of<ValueError>([&] { save_onnx(path, net, x, options); });
  };
  EXPECT_THAT(said({.opset = 16}), HasSubstr("opset 16 is not written; use 17 or 23"));
  EXPECT_THAT(said({.dynamic = {{1, 0, "batch"}}}), HasSubstr("a dynamic size needs an input"));
  EXPECT_THAT(said({.dynamic = {{0, 4, "batch"}}}), HasSubstr("dimension 4"));
  EXPECT_THAT(said({.dynamic = {{0, 0, ""}}}), HasSubstr("a name"));
  EXPECT_THAT(said({.input_names = {"a", "b"}}), HasSubstr("2 names for 1 inputs"));
  EXPECT_THAT(message_of<ValueError>([&] { save_onnx(path, net, {}); }), HasSubstr("0 example inputs"));
  const OnnxFunction reads_one = [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{net.forward(in[0])}; };
  EXPECT_THAT(message_of<ValueError>([&] {
                save_onnx(path, net, reads_one, {x[0], x[0]});
              }),
              HasSubstr("nothing reads input 1 ('input_1')"));
  const OnnxFunction on_host = [&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{in[0] * static_cast<double>(in[0].sum().item<float>())};
  };
  EXPECT_THAT(message_of<ValueError>([&] { save_onnx(path, net, on_host, x); }), HasSubstr("is read on the host"));
  EXPECT_THAT(message_of<IoError>([&] { save_onnx(folder.path("no/such/folder.onnx"), net, x); }),
              HasSubstr("folder.onnx"));
  net.train();
  EXPECT_THAT(said({}), HasSubstr("call eval()"));
  EXPECT_TRUE(folder.names().empty());
}

TEST(OnnxExport, RandomNumbersAreRefused) {
  const TemporaryFolder folder;
  const SmallNet net;
  const OnnxFunction noisy = [&](const std::vector<Tensor>& x) {
    return std::vector<Tensor>{net.forward(x[0]) + dropout(x[0], 0.5).mean()};
  };
  EXPECT_THROW(save_onnx(folder.path("net.onnx"), net, noisy, {test::noise_picture({1, 3, 8, 8})}), UnsupportedError);
}

}  // namespace
}  // namespace lockstep::io
