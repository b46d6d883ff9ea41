// What Segment Anything does after the image encoder: prompts to embeddings, and embeddings to masks by a transformer
// that attends from tokens to the picture and back. Small, so that a click is answered at once.
#pragma once

#include <optional>

#include <lockstep/nn.h>

namespace lockstep {
inline namespace v0 {
namespace models {

struct SamDecoderOptions {
  std::int64_t channels = 256;      ///< of embeddings and tokens
  std::int64_t mask_channels = 16;  ///< hidden, of the mask prompt's convolutions
  std::int64_t depth = 2;           ///< of the transformer
  std::int64_t heads = 8;
  std::int64_t mlp_channels = 2048;
  std::int64_t iou_channels = 256;  ///< hidden, of the head that predicts the IoU
  std::int64_t iou_depth = 3;
};

/// What a point's label says. The corners of a box are labels of their own.
enum class SamLabel : std::int32_t { none = -1, background = 0, foreground = 1, box_from = 2, box_to = 3 };

/// Embeds prompts for pictures in a square of `image_size` pixels, and embeddings of `grid` x `grid`.
class LOCKSTEP_API SamPromptEncoder : public nn::Module {
 public:
  SamPromptEncoder(nn::Module& parent, std::string name, std::int64_t image_size, std::int64_t grid,
                   const SamDecoderOptions& options = {});

  /// coordinates [B, N, 2] (x, y) in pixels of the square, labels [B, N] i32 to [B, N, channels].
  Tensor points(const Operand& coordinates, const Tensor& labels) const;
  /// Logits [B, 1, 4 grid, 4 grid] of a mask to [B, channels, grid, grid]; without one [1, channels, 1, 1].
  Tensor mask(const std::optional<Tensor>& logits) const;
  /// The positions of an embedding's elements: [1, channels, grid, grid].
  Tensor grid_positions() const;

  nn::ModuleList<nn::Embedding> point_embeddings{*this, "point_embeddings"};  ///< by label
  nn::Embedding not_a_point_embed;
  nn::Sequential mask_downscaling{*this, "mask_downscaling"};
  nn::Embedding no_mask_embed;
  nn::Module pe_layer{*this, "pe_layer"};
  nn::Buffer positional_encoding_gaussian_matrix;  ///< [2, channels / 2], of pe_layer

 private:
  Tensor encode(const Tensor& coordinates) const;

  std::int64_t image_size_;
  std::int64_t grid_;
};

/// Masks and how good they are, as the network sees it.
struct SamMaskLogits {
  Tensor masks;  ///< [B, n, 4 grid, 4 grid]; above 0 is inside
  Tensor iou;    ///< [B, n]
};

/// The part of Segment Anything that makes masks of a picture and of what is asked for.
class LOCKSTEP_API SamMaskDecoder : public nn::Module {
 public:
  /// Throws ValueError where heads do not divide channels, or channels are no multiple of 8.
  SamMaskDecoder(nn::Module& parent, std::string name, const SamDecoderOptions& options = {});
  ~SamMaskDecoder() override;

  /// image [1, channels, grid, grid], positions likewise, points [B, N, channels], mask [B or 1, channels, grid or 1,
  /// ...]. With `multimask` n = 3 masks of different sizes, else one; the sizes of B prompts are those of one.
  SamMaskLogits operator()(const Operand& image, const Tensor& positions, const Tensor& points, const Tensor& mask,
                           bool multimask) const;

  class Transformer;

 private:
  std::unique_ptr<Transformer> transformer_;

 public:
  nn::Embedding iou_token;
  nn::Embedding mask_tokens;
  nn::Sequential output_upscaling{*this, "output_upscaling"};
  nn::ModuleList<nn::Layer> output_hypernetworks_mlps{*this, "output_hypernetworks_mlps"};

 private:
  std::unique_ptr<nn::Layer> iou_prediction_head_;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
