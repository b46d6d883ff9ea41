// Tokens (one for the IoU, one for each mask, and the prompt's) meet the picture in the transformer; each mask's token
// then becomes a vector, whose product with the upscaled picture is the mask.
#include <fmt/format.h>

#include "models/sam/layers.h"
#include "models/sam/two_way_transformer.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

// One for prompts that are not ambiguous, and three.
constexpr std::int64_t kMasks = 4;

const SamDecoderOptions& checked(const std::string& path, const SamDecoderOptions& options) {
  if (options.channels < 8 || options.channels % 8 != 0 || options.mask_channels < 4 || options.mlp_channels < 1 ||
      options.iou_channels < 1 || options.iou_depth < 1 || options.depth < 1) {
    throw ValueError(
        fmt::format("{}: channels must be a multiple of 8, mask_channels at least 4, and the other "
                    "sizes positive; they are {}, {}, {}, {}, {}, {}",
                    path, options.channels, options.mask_channels, options.mlp_channels, options.iou_channels,
                    options.iou_depth, options.depth));
  }
  return options;
}

}  // namespace

SamMaskDecoder::SamMaskDecoder(nn::Module& parent, std::string name, const SamDecoderOptions& options)
    : Module(parent, std::move(name)),
      transformer_(std::make_unique<Transformer>(*this, "transformer", checked(path(), options))),
      iou_token(*this, "iou_token", 1, options.channels),
      mask_tokens(*this, "mask_tokens", kMasks, options.channels) {
  const std::int64_t channels = options.channels;
  const nn::ConvTransposeLayerOptions twice{.stride = {2}};
  output_upscaling.add<nn::ConvTranspose2d>(channels, channels / 4, Shape{2}, twice);
  output_upscaling.add<sam::LayerNorm2d>(channels / 4);
  output_upscaling.add<nn::GELU>();
  output_upscaling.add<nn::ConvTranspose2d>(channels / 4, channels / 8, Shape{2}, twice);
  output_upscaling.add<nn::GELU>();
  for (std::int64_t i = 0; i < kMasks; ++i) {
    output_hypernetworks_mlps.add<sam::Perceptron>(channels, channels, channels / 8, 3);
  }
  iou_prediction_head_ = std::make_unique<sam::Perceptron>(*this, "iou_prediction_head", channels, options.iou_channels,
                                                           kMasks, options.iou_depth);
}

SamMaskDecoder::~SamMaskDecoder() = default;

SamMaskLogits SamMaskDecoder::operator()(const Operand& image, const Tensor& positions, const Tensor& points,
                                         const Tensor& mask, bool multimask) const {
  const CallScope call("SamMaskDecoder", image);
  const std::int64_t batch = points.size(0);
  const std::int64_t channels = points.size(2);
  const Tensor own = cat({iou_token.weight, mask_tokens.weight}).unsqueeze(0).expand({batch, 1 + kMasks, channels});
  const Tensor tokens = points.size(1) > 0 ? cat({own, points}, 1) : own;
  // Prompts without a mask see the same picture: it stays one until the first block mixes it with their tokens.
  const Tensor source = add(image, mask);
  const std::int64_t grid = source.size(2);
  const auto rows = [](const Tensor& x) { return x.flatten(2).transpose(1, 2); };
  const sam::TokensAndImage mixed = (*transformer_)(tokens, rows(source), rows(positions));

  const Tensor upscaled =
      output_upscaling(mixed.image.transpose(1, 2).reshape({mixed.image.size(0), channels, grid, grid}));
  const std::int64_t first = multimask ? 1 : 0;
  const std::int64_t count = multimask ? kMasks - 1 : 1;
  std::vector<Tensor> vectors;
  for (std::int64_t i = first; i < first + count; ++i) {
    vectors.push_back(output_hypernetworks_mlps[static_cast<std::size_t>(i)](mixed.tokens.select(1, 1 + i)));
  }
  const Tensor masks = matmul(stack(vectors, 1), upscaled.flatten(2));
  const Tensor iou = (*iou_prediction_head_)(mixed.tokens.select(1, 0));
  return {masks.reshape({batch, count, 4 * grid, 4 * grid}), iou.narrow(1, first, count)};
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
