// DINOv2: what a picture shows, as a vector, learned without labels. "DINOv2: Learning Robust Visual Features without
// Supervision", Oquab et al., 2023. Keys as in transformers.
#pragma once

#include <memory>
#include <vector>

#include <lockstep/models/preprocessing.h>
#include <lockstep/nn.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// ViT-S/14.
struct LOCKSTEP_API DinoV2Options {
  std::int64_t channels = 384;
  std::int64_t heads = 6;
  std::int64_t depth = 12;
  std::int64_t mlp_channels = 1536;
  std::int64_t patch = 14;
  std::int64_t image_size = 518;  ///< that the table of positions was made for
};

/// The networks without registers and gates: small, base, large.
class LOCKSTEP_API DinoV2 : public nn::Layer {
 public:
  /// Random weights, on the CPU, in training mode. Throws ValueError for options that make no network.
  explicit DinoV2(const DinoV2Options& options = {});
  /// The network that these weights are of (heads are 64 channels wide, as in all published ones), in f32 and
  /// evaluation mode. Throws ValueError or ShapeError if they are another network's.
  static std::unique_ptr<DinoV2> load(const nn::StateDict& weights, Device device = {}, CallSite site = {});
  /// The names of what transformers 5 saves, as they are in published files.
  static nn::StateDict with_published_names(const nn::StateDict& weights);
  /// What published weights take: 224 x 224.
  static Preprocessing preprocessing();

  /// x [N, 3, H, W], H and W multiples of the patch (ShapeError), to [N, 1 + patches, channels]: what the whole shows,
  /// then each patch, row by row. Tables of positions of another size are resized (bicubic).
  Tensor hidden_states(const Operand& x) const;
  /// Of these the first: [N, channels].
  Tensor forward(const Operand& x) const override;

 private:
  Tensor positions(std::int64_t rows, std::int64_t columns) const;

  DinoV2Options options_;
  nn::Module embeddings{*this, "embeddings"};
  nn::Parameter cls_token;
  nn::Parameter mask_token;  ///< of training; unused here
  nn::Parameter position_embeddings;
  nn::Module patch_embeddings{embeddings, "patch_embeddings"};
  nn::Conv2d projection;
  nn::Module encoder{*this, "encoder"};
  nn::Module layer{encoder, "layer"};
  std::vector<std::unique_ptr<nn::Layer>> blocks;
  nn::LayerNorm layernorm;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
