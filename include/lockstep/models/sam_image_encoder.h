// The image encoders of Segment Anything: TinyViT (MobileSAM, "Faster Segment Anything", Zhang et al., 2023) and the
// plain vision transformers of "Segment Anything", Kirillov et al., 2023. Keys as in the published checkpoints.
#pragma once

#include <array>
#include <vector>

#include <lockstep/nn.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// The published TinyViT-5M.
struct SamTinyViTOptions {
  std::array<std::int64_t, 4> channels{64, 128, 160, 320};
  std::array<std::int64_t, 4> depths{2, 2, 6, 2};
  std::array<std::int64_t, 4> heads{2, 4, 5, 10};    ///< the first is not used: that stage has convolutions
  std::array<std::int64_t, 4> windows{7, 7, 14, 7};  ///< likewise
  std::int64_t classes = 1000;                       ///< of the head that checkpoints hold and that nothing reads
};

/// x [N, 3, H, W] to [N, out_channels, H / 16, W / 16]; H and W are multiples of 16 (ShapeError).
class LOCKSTEP_API SamTinyViT : public nn::Layer {
 public:
  /// Throws ValueError where heads do not divide channels, or sizes are below 1.
  SamTinyViT(nn::Module& parent, std::string name, std::int64_t out_channels, const SamTinyViTOptions& options = {});
  Tensor forward(const Operand& x) const override;

  nn::Module patch_embed{*this, "patch_embed"};
  nn::Sequential seq{patch_embed, "seq"};
  nn::ModuleList<nn::Layer> layers{*this, "layers"};
  nn::LayerNorm norm_head;  ///< With `head`, what TinyViT classified by; not used.
  nn::Linear head;
  nn::Sequential neck{*this, "neck"};
};

/// The encoder of ViT-B.
struct SamViTOptions {
  std::int64_t channels = 768;
  std::int64_t depth = 12;
  std::int64_t heads = 12;
  std::vector<std::int64_t> global_blocks{2, 5, 8, 11};  ///< These attend to the whole picture, the others in windows.
  std::int64_t window = 14;
  std::int64_t mlp_ratio = 4;
  std::int64_t patch = 16;
};

/// x [N, 3, S, S] to [N, out_channels, S / patch, S / patch], S being `image_size` (ShapeError).
class LOCKSTEP_API SamViT : public nn::Layer {
 public:
  /// Throws ValueError where heads do not divide channels, the patch does not divide the picture, or sizes are below 1.
  SamViT(nn::Module& parent, std::string name, std::int64_t image_size, std::int64_t out_channels,
         const SamViTOptions& options = {});
  Tensor forward(const Operand& x) const override;

  nn::Parameter pos_embed;  ///< [1, S / patch, S / patch, channels]
  nn::Module patch_embed{*this, "patch_embed"};
  nn::Conv2d proj;  ///< of patch_embed
  nn::ModuleList<nn::Layer> blocks{*this, "blocks"};
  nn::Sequential neck{*this, "neck"};
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
