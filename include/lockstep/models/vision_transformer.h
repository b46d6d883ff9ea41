// The vision transformer: "An Image is Worth 16x16 Words", Dosovitskiy et al., 2020. Keys as in torchvision.
#pragma once

#include <lockstep/nn.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// ViT-B/16.
struct LOCKSTEP_API VisionTransformerOptions {
  std::int64_t image_size = 224;
  std::int64_t patch = 16;
  std::int64_t depth = 12;
  std::int64_t heads = 12;
  std::int64_t channels = 768;
  std::int64_t mlp_channels = 3072;
};

/// x [N, 3, image_size, image_size] (ShapeError) to logits [N, classes].
class LOCKSTEP_API VisionTransformer : public nn::Layer {
 public:
  /// ValueError unless the patch divides the picture and heads divide channels.
  explicit VisionTransformer(std::int64_t classes, const VisionTransformerOptions& options = {});
  Tensor forward(const Operand& x) const override;
  /// Published checkpoints hold the perceptrons of blocks under older names, mlp.linear_1 and mlp.linear_2: the same
  /// tensors under today's names.
  static nn::StateDict with_current_names(const nn::StateDict& weights);

 private:
  VisionTransformerOptions options_;

 public:
  nn::Parameter class_token;
  nn::Conv2d conv_proj;
  nn::Module encoder{*this, "encoder"};
  nn::Parameter pos_embedding;           ///< of encoder: [1, patches + 1, channels]
  nn::Module layers{encoder, "layers"};  ///< encoder_layer_0, ...
  std::vector<std::unique_ptr<nn::Layer>> blocks;
  nn::LayerNorm ln;  ///< of encoder
  nn::Module heads{*this, "heads"};
  nn::Linear head;  ///< of heads
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
