#include "models/sam/two_way_transformer.h"

#include "models/sam/layers.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace sam {
namespace {

// [B, L, heads * width] to [B, heads, L, width].
Tensor split_heads(const Tensor& x, std::int64_t heads) {
  return x.reshape({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
}

}  // namespace

Attention::Attention(nn::Module& parent, std::string name, std::int64_t channels, std::int64_t heads,
                     std::int64_t inner)
    : Module(parent, std::move(name)),
      heads_(heads),
      q_proj(*this, "q_proj", channels, inner),
      k_proj(*this, "k_proj", channels, inner),
      v_proj(*this, "v_proj", channels, inner),
      out_proj(*this, "out_proj", inner, channels) {
  check_heads(path(), inner, heads);
}

Tensor Attention::operator()(const Tensor& query, const Tensor& key, const Tensor& value) const {
  const Tensor mixed = scaled_dot_product_attention(
      split_heads(q_proj(query), heads_), split_heads(k_proj(key), heads_), split_heads(v_proj(value), heads_));
  return out_proj(mixed.transpose(1, 2).flatten(2));
}

TwoWayBlock::TwoWayBlock(nn::Module& parent, std::string name, const SamDecoderOptions& options, bool is_first)
    : Module(parent, std::move(name)),
      is_first_(is_first),
      self_attn(*this, "self_attn", options.channels, options.heads, options.channels),
      norm1(*this, "norm1", {options.channels}),
      cross_attn_token_to_image(*this, "cross_attn_token_to_image", options.channels, options.heads,
                                options.channels / 2),
      norm2(*this, "norm2", {options.channels}),
      lin1(mlp, "lin1", options.channels, options.mlp_channels),
      lin2(mlp, "lin2", options.mlp_channels, options.channels),
      norm3(*this, "norm3", {options.channels}),
      norm4(*this, "norm4", {options.channels}),
      cross_attn_image_to_token(*this, "cross_attn_image_to_token", options.channels, options.heads,
                                options.channels / 2) {}

TokensAndImage TwoWayBlock::operator()(const TokensAndImage& x, const TokensAndImage& positions) const {
  Tensor tokens = x.tokens;
  if (is_first_) {
    tokens = norm1(self_attn(tokens, tokens, tokens));
  } else {
    const Tensor placed = tokens + positions.tokens;
    tokens = norm1(tokens + self_attn(placed, placed, tokens));
  }
  const Tensor image = x.image + positions.image;
  tokens = norm2(tokens + cross_attn_token_to_image(tokens + positions.tokens, image, x.image));
  tokens = norm3(tokens + lin2(relu(lin1(tokens))));
  const Tensor seen = cross_attn_image_to_token(image, tokens + positions.tokens, tokens);
  return {tokens, norm4(x.image + seen)};
}

}  // namespace sam

SamMaskDecoder::Transformer::Transformer(nn::Module& parent, std::string name, const SamDecoderOptions& options)
    : Module(parent, std::move(name)),
      final_attn_token_to_image(*this, "final_attn_token_to_image", options.channels, options.heads,
                                options.channels / 2),
      norm_final_attn(*this, "norm_final_attn", {options.channels}) {
  for (std::int64_t i = 0; i < options.depth; ++i) layers.add(options, i == 0);
}

sam::TokensAndImage SamMaskDecoder::Transformer::operator()(const Tensor& tokens, const Tensor& image,
                                                            const Tensor& positions) const {
  sam::TokensAndImage x{tokens, image};
  for (std::size_t i = 0; i < layers.size(); ++i) x = layers[i](x, {tokens, positions});
  const Tensor seen = final_attn_token_to_image(x.tokens + tokens, x.image + positions, x.image);
  return {norm_final_attn(x.tokens + seen), x.image};
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
