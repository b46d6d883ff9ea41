// Points and boxes become random Fourier features of their place plus a learned vector of their kind; masks go through
// three convolutions.
#include <cmath>
#include <numbers>

#include <lockstep/models/sam_mask_decoder.h>

#include "models/sam/layers.h"

namespace lockstep {
inline namespace v0 {
namespace models {

SamPromptEncoder::SamPromptEncoder(nn::Module& parent, std::string name, std::int64_t image_size, std::int64_t grid,
                                   const SamDecoderOptions& options)
    : Module(parent, std::move(name)),
      not_a_point_embed(*this, "not_a_point_embed", 1, options.channels),
      no_mask_embed(*this, "no_mask_embed", 1, options.channels),
      positional_encoding_gaussian_matrix(pe_layer, "positional_encoding_gaussian_matrix",
                                          randn({2, options.channels / 2})),
      image_size_(image_size),
      grid_(grid) {
  for (int label = 0; label < 4; ++label) point_embeddings.add(1, options.channels);
  const nn::ConvLayerOptions halve{.stride = {2}};
  mask_downscaling.add<nn::Conv2d>(1, options.mask_channels / 4, Shape{2}, halve);
  mask_downscaling.add<sam::LayerNorm2d>(options.mask_channels / 4);
  mask_downscaling.add<nn::GELU>();
  mask_downscaling.add<nn::Conv2d>(options.mask_channels / 4, options.mask_channels, Shape{2}, halve);
  mask_downscaling.add<sam::LayerNorm2d>(options.mask_channels);
  mask_downscaling.add<nn::GELU>();
  mask_downscaling.add<nn::Conv2d>(options.mask_channels, options.channels, Shape{1});
}

// Coordinates in [0, 1] to their features.
Tensor SamPromptEncoder::encode(const Tensor& coordinates) const {
  const Tensor angles =
      matmul(coordinates * 2 - 1, positional_encoding_gaussian_matrix) * (2 * std::numbers::pi_v<double>);
  return cat({sin(angles), cos(angles)}, -1);
}

Tensor SamPromptEncoder::points(const Operand& coordinates, const Tensor& labels) const {
  const CallScope call("SamPromptEncoder::points", coordinates);
  const Tensor place = encode((add(coordinates, 0.5)) / static_cast<double>(image_size_));
  std::vector<Tensor> rows;
  for (std::size_t i = 0; i < point_embeddings.size(); ++i) rows.push_back(point_embeddings[i].weight);
  const Tensor kind = embedding(cat(rows), maximum(labels, 0));
  return where(eq(labels, static_cast<int>(SamLabel::none)).unsqueeze(-1), not_a_point_embed.weight, place + kind);
}

Tensor SamPromptEncoder::mask(const std::optional<Tensor>& logits) const {
  if (logits) return mask_downscaling(*logits);
  return no_mask_embed.weight.tensor().reshape({1, -1, 1, 1});
}

Tensor SamPromptEncoder::grid_positions() const {
  const TensorOptions options{DType::f32, positional_encoding_gaussian_matrix.device()};
  const Tensor centres = (arange(0, static_cast<double>(grid_), 1, options) + 0.5) / static_cast<double>(grid_);
  const Shape square{grid_, grid_};
  const Tensor x = centres.unsqueeze(0).expand(square);
  const Tensor y = centres.unsqueeze(1).expand(square);
  return contiguous(encode(stack({x, y}, -1)).permute({2, 0, 1}).unsqueeze(0));
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
