#include <lockstep/models/efficientnet.h>

#include <algorithm>

#include "models/vision_layers.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

using vision::ConvNorm;
using vision::ConvNormOptions;

// More channels, a depthwise convolution, squeezing, fewer channels; a residual where the shape stays. Keys block.*.
class EfficientBlock : public vision::ResidualBlock {
 public:
  EfficientBlock(nn::Module& parent, std::string name, std::int64_t in, const EfficientNetStage& stage,
                 std::int64_t stride)
      : ResidualBlock(parent, std::move(name), stride == 1 && in == stage.channels) {
    const std::int64_t expanded = in * stage.expansion;
    if (expanded != in) {
      block.add<ConvNorm>(in, expanded, ConvNormOptions{.kernel = 1, .activation = silu});
    }
    block.add<ConvNorm>(
        expanded, expanded,
        ConvNormOptions{.kernel = stage.kernel, .stride = stride, .groups = expanded, .activation = silu});
    block.add<vision::SqueezeExcitation>(expanded, std::max<std::int64_t>(1, in / 4), silu, sigmoid);
    block.add<ConvNorm>(expanded, stage.channels, ConvNormOptions{.kernel = 1});
  }
};

}  // namespace

EfficientNet::EfficientNet(std::int64_t classes, const EfficientNetOptions& options) {
  std::int64_t channels = options.stem;
  features.add<ConvNorm>(3, channels, ConvNormOptions{.stride = 2, .activation = silu});
  for (const EfficientNetStage& stage : options.stages) {
    auto& blocks = features.add<nn::Sequential>();
    for (std::int64_t i = 0; i < stage.blocks; ++i) {
      blocks.add<EfficientBlock>(channels, stage, i == 0 ? stage.stride : 1);
      channels = stage.channels;
    }
  }
  features.add<ConvNorm>(channels, 4 * channels, ConvNormOptions{.kernel = 1, .activation = silu});
  classifier.add<nn::Dropout>(options.dropout);
  classifier.add<nn::Linear>(4 * channels, classes);
}

Tensor EfficientNet::forward(const Operand& x) const {
  const CallScope call(x.site());
  return classifier(mean(features(x), {2, 3}));
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
