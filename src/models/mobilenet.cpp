#include <lockstep/models/mobilenet.h>

#include "models/vision_layers.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

using vision::ConvNorm;
using vision::ConvNormOptions;

// More channels, a depthwise convolution, fewer channels; a residual where the shape stays. Keys conv.*.
class MobileV2Block : public nn::Layer {
 public:
  MobileV2Block(nn::Module& parent, std::string name, std::int64_t in, const MobileNetV2Stage& stage,
                std::int64_t stride)
      : Layer(parent, std::move(name)), residual_(stride == 1 && in == stage.channels) {
    const std::int64_t hidden = in * stage.expansion;
    if (stage.expansion != 1) conv.add<ConvNorm>(in, hidden, ConvNormOptions{.kernel = 1, .activation = relu6});
    conv.add<ConvNorm>(hidden, hidden, ConvNormOptions{.stride = stride, .groups = hidden, .activation = relu6});
    conv.add<nn::Conv2d>(hidden, stage.channels, Shape{1}, nn::ConvLayerOptions{.bias = false});
    conv.add<nn::BatchNorm2d>(stage.channels);
  }

  Tensor forward(const Operand& x) const override {
    const CallScope call(x.site());
    const Tensor y = conv(x);
    return residual_ ? x.tensor() + y : y;
  }

 private:
  bool residual_;
  nn::Sequential conv{*this, "conv"};
};

const nn::BatchNormOptions kV3Norm{.eps = 1e-3, .momentum = 0.01};

// Likewise, with squeezing in between. Keys block.*.
class MobileV3Block : public vision::ResidualBlock {
 public:
  MobileV3Block(nn::Module& parent, std::string name, std::int64_t in, const MobileNetV3Block& options)
      : ResidualBlock(parent, std::move(name), options.stride == 1 && in == options.channels) {
    const vision::Activation activation = options.hardswish ? hardswish : relu;
    const std::int64_t expanded = options.expanded;
    if (expanded != in) {
      block.add<ConvNorm>(in, expanded, ConvNormOptions{.kernel = 1, .activation = activation, .norm = kV3Norm});
    }
    block.add<ConvNorm>(expanded, expanded,
                        ConvNormOptions{.kernel = options.kernel,
                                        .stride = options.stride,
                                        .groups = expanded,
                                        .activation = activation,
                                        .norm = kV3Norm});
    if (options.squeeze) {
      block.add<vision::SqueezeExcitation>(expanded, vision::divisible(static_cast<double>(expanded / 4)), relu,
                                           hardsigmoid);
    }
    block.add<ConvNorm>(expanded, options.channels, ConvNormOptions{.kernel = 1, .norm = kV3Norm});
  }
};

}  // namespace

MobileNetV2::MobileNetV2(std::int64_t classes, const MobileNetV2Options& options) {
  std::int64_t channels = options.stem;
  features.add<ConvNorm>(3, channels, ConvNormOptions{.stride = 2, .activation = relu6});
  for (const MobileNetV2Stage& stage : options.stages) {
    for (std::int64_t i = 0; i < stage.blocks; ++i) {
      features.add<MobileV2Block>(channels, stage, i == 0 ? stage.stride : 1);
      channels = stage.channels;
    }
  }
  features.add<ConvNorm>(channels, options.last_channels, ConvNormOptions{.kernel = 1, .activation = relu6});
  classifier.add<nn::Dropout>(0.2);
  classifier.add<nn::Linear>(options.last_channels, classes);
}

Tensor MobileNetV2::forward(const Operand& x) const {
  const CallScope call(x.site());
  return classifier(mean(features(x), {2, 3}));
}

MobileNetV3Options MobileNetV3Options::large() {
  return {.blocks = {{3, 16, 16, false, false, 1},
                     {3, 64, 24, false, false, 2},
                     {3, 72, 24, false, false, 1},
                     {5, 72, 40, true, false, 2},
                     {5, 120, 40, true, false, 1},
                     {5, 120, 40, true, false, 1},
                     {3, 240, 80, false, true, 2},
                     {3, 200, 80, false, true, 1},
                     {3, 184, 80, false, true, 1},
                     {3, 184, 80, false, true, 1},
                     {3, 480, 112, true, true, 1},
                     {3, 672, 112, true, true, 1},
                     {5, 672, 160, true, true, 2},
                     {5, 960, 160, true, true, 1},
                     {5, 960, 160, true, true, 1}},
          .hidden = 1280};
}

MobileNetV3Options MobileNetV3Options::small() {
  return {.blocks = {{3, 16, 16, true, false, 2},
                     {3, 72, 24, false, false, 2},
                     {3, 88, 24, false, false, 1},
                     {5, 96, 40, true, true, 2},
                     {5, 240, 40, true, true, 1},
                     {5, 240, 40, true, true, 1},
                     {5, 120, 48, true, true, 1},
                     {5, 144, 48, true, true, 1},
                     {5, 288, 96, true, true, 2},
                     {5, 576, 96, true, true, 1},
                     {5, 576, 96, true, true, 1}},
          .hidden = 1024};
}

MobileNetV3::MobileNetV3(std::int64_t classes, const MobileNetV3Options& options) {
  if (options.blocks.empty()) throw ValueError("MobileNetV3: there are no blocks");
  std::int64_t channels = options.stem;
  features.add<ConvNorm>(3, channels, ConvNormOptions{.stride = 2, .activation = hardswish, .norm = kV3Norm});
  for (const MobileNetV3Block& block : options.blocks) {
    features.add<MobileV3Block>(channels, block);
    channels = block.channels;
  }
  const std::int64_t last = 6 * channels;
  features.add<ConvNorm>(channels, last, ConvNormOptions{.kernel = 1, .activation = hardswish, .norm = kV3Norm});
  classifier.add<nn::Linear>(last, options.hidden);
  classifier.add<nn::Hardswish>();
  classifier.add<nn::Dropout>(0.2);
  classifier.add<nn::Linear>(options.hidden, classes);
}

Tensor MobileNetV3::forward(const Operand& x) const {
  const CallScope call(x.site());
  return classifier(mean(features(x), {2, 3}));
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
