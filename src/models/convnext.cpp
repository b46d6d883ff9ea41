#include <lockstep/models/convnext.h>

#include "models/sam/layers.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

using sam::LayerNorm2d;

// A depthwise convolution, then a perceptron on the channels of each pixel. Keys block.*, and layer_scale.
class ConvNeXtBlock : public nn::Layer {
 public:
  ConvNeXtBlock(nn::Module& parent, std::string name, std::int64_t channels)
      : Layer(parent, std::move(name)),
        layer_scale(*this, "layer_scale", full({channels, 1, 1}, 1e-6)),
        conv(block, "0", channels, channels, {7}, {.padding = {3}, .groups = channels}),
        norm(block, "2", {channels}, {.eps = 1e-6}),
        fc1(block, "3", channels, 4 * channels),
        fc2(block, "5", 4 * channels, channels) {}

  Tensor forward(const Operand& x) const override {
    const CallScope call(x.site());
    const Tensor y = fc2(gelu(fc1(norm(conv(x).permute({0, 2, 3, 1})))));
    return layer_scale * y.permute({0, 3, 1, 2}) + x.tensor();
  }

 private:
  nn::Parameter layer_scale;
  nn::Module block{*this, "block"};
  nn::Conv2d conv;
  nn::LayerNorm norm;
  nn::Linear fc1;
  nn::Linear fc2;
};

}  // namespace

ConvNeXt::ConvNeXt(std::int64_t classes, const ConvNeXtOptions& options)
    : norm_(std::make_unique<LayerNorm2d>(classifier, "0", options.channels.back())),
      head(classifier, "2", options.channels.back(), classes) {
  auto& stem = features.add<nn::Sequential>();
  stem.add<nn::Conv2d>(3, options.channels[0], Shape{4}, nn::ConvLayerOptions{.stride = {4}});
  stem.add<LayerNorm2d>(options.channels[0]);
  for (std::size_t i = 0; i < options.channels.size(); ++i) {
    auto& stage = features.add<nn::Sequential>();
    for (std::int64_t block = 0; block < options.blocks[i]; ++block) stage.add<ConvNeXtBlock>(options.channels[i]);
    if (i + 1 == options.channels.size()) continue;
    auto& halve = features.add<nn::Sequential>();
    halve.add<LayerNorm2d>(options.channels[i]);
    halve.add<nn::Conv2d>(options.channels[i], options.channels[i + 1], Shape{2}, nn::ConvLayerOptions{.stride = {2}});
  }
}

ConvNeXt::~ConvNeXt() = default;

Tensor ConvNeXt::forward(const Operand& x) const {
  const CallScope call(x.site());
  return head((*norm_)(mean(features(x), {2, 3}, true)).flatten(1));
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
