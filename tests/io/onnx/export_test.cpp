// Exports of ops and small networks: loaded again they give the same bits, with the weights' names, and what cannot be
// written is refused with its reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include <lockstep/fft.h>
#include <lockstep/lockstep.h>

#include "io/onnx/exported.h"
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
