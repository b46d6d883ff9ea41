// The transformer of the mask decoder: tokens attend to each other and to the picture, the picture to the tokens.
// Internal.
#pragma once

#include <lockstep/models/sam_mask_decoder.h>

namespace lockstep {
inline namespace v0 {
namespace models {
namespace sam {

/// Attention whose heads together have `inner` channels.
class Attention : public nn::Module {
 public:
  Attention(nn::Module& parent, std::string name, std::int64_t channels, std::int64_t heads, std::int64_t inner);
  /// query [B, L, channels], key and value [B, S, channels] to [B, L, channels]; a batch of 1 serves all others.
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value) const;

 private:
  std::int64_t heads_;
  nn::Linear q_proj;
  nn::Linear k_proj;
  nn::Linear v_proj;
  nn::Linear out_proj;
};

struct TokensAndImage {
  Tensor tokens;  ///< [B, T, channels]
  Tensor image;   ///< [B, grid * grid, channels]
};

class TwoWayBlock : public nn::Module {
 public:
  /// The first block of a transformer has tokens that are their own positions.
  TwoWayBlock(nn::Module& parent, std::string name, const SamDecoderOptions& options, bool is_first);
  TokensAndImage operator()(const TokensAndImage& x, const TokensAndImage& positions) const;

 private:
  bool is_first_;
  Attention self_attn;
  nn::LayerNorm norm1;
  Attention cross_attn_token_to_image;
  nn::LayerNorm norm2;
  nn::Module mlp{*this, "mlp"};
  nn::Linear lin1;
  nn::Linear lin2;
  nn::LayerNorm norm3;
  nn::LayerNorm norm4;
  Attention cross_attn_image_to_token;
};

}  // namespace sam

class SamMaskDecoder::Transformer : public nn::Module {
 public:
  Transformer(nn::Module& parent, std::string name, const SamDecoderOptions& options);
  /// `positions` are those of the picture; the tokens are theirs.
  sam::TokensAndImage operator()(const Tensor& tokens, const Tensor& image, const Tensor& positions) const;

 private:
  nn::ModuleList<sam::TwoWayBlock> layers{*this, "layers"};
  sam::Attention final_attn_token_to_image;
  nn::LayerNorm norm_final_attn;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
