#include <lockstep/models/vision_transformer.h>

#include <fmt/format.h>

#include <lockstep/check.h>

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

constexpr nn::LayerNormOptions kViTNorm{.eps = 1e-6};

// x [N, L, C]
class EncoderBlock : public nn::Layer {
 public:
  EncoderBlock(nn::Module& parent, std::string name, const VisionTransformerOptions& options)
      : Layer(parent, std::move(name)),
        ln_1(*this, "ln_1", {options.channels}, kViTNorm),
        self_attention(*this, "self_attention", options.channels, options.heads, {.batch_first = true}),
        ln_2(*this, "ln_2", {options.channels}, kViTNorm),
        fc1(mlp, "0", options.channels, options.mlp_channels),
        fc2(mlp, "3", options.mlp_channels, options.channels) {}

  Tensor forward(const Operand& x) const override {
    const CallScope call(x.site());
    const Tensor normed = ln_1(x);
    const Tensor y = self_attention(normed, normed, normed) + x.tensor();
    return y + fc2(gelu(fc1(ln_2(y))));
  }

 private:
  nn::LayerNorm ln_1;
  nn::MultiheadAttention self_attention;
  nn::LayerNorm ln_2;
  nn::Module mlp{*this, "mlp"};
  nn::Linear fc1;
  nn::Linear fc2;
};

const VisionTransformerOptions& checked_vit(const VisionTransformerOptions& options) {
  if (options.patch < 1 || options.image_size < options.patch || options.image_size % options.patch != 0) {
    throw ValueError(fmt::format("VisionTransformer: patches of {} do not divide pictures of {}", options.patch,
                                 options.image_size));
  }
  return options;
}

std::int64_t patch_count(const VisionTransformerOptions& options) {
  const std::int64_t side = options.image_size / options.patch;
  return side * side;
}

}  // namespace

VisionTransformer::VisionTransformer(std::int64_t classes, const VisionTransformerOptions& options)
    : options_(checked_vit(options)),
      class_token(*this, "class_token", zeros({1, 1, options.channels})),
      conv_proj(*this, "conv_proj", 3, options.channels, {options.patch}, {.stride = {options.patch}}),
      pos_embedding(encoder, "pos_embedding", randn({1, patch_count(options) + 1, options.channels}) * 0.02),
      ln(encoder, "ln", {options.channels}, kViTNorm),
      head(heads, "head", options.channels, classes) {
  for (std::int64_t i = 0; i < options.depth; ++i) {
    blocks.push_back(std::make_unique<EncoderBlock>(layers, fmt::format("encoder_layer_{}", i), options));
  }
}

Tensor VisionTransformer::forward(const Operand& x) const {
  const CallScope call("VisionTransformer", x);
  const Shape& shape = tensor_operand(x).shape();
  const std::int64_t side = options_.image_size;
  check<ShapeError>(shape.rank() == 4 && shape[1] == 3 && shape[2] == side && shape[3] == side,
                    fmt::format("pictures must be [N, 3, {}, {}]", side, side), {{"input", x}});
  const Tensor patches = conv_proj(x).flatten(2).transpose(1, 2);
  const Tensor token = class_token.tensor().expand({shape[0], 1, options_.channels});
  Tensor y = cat({token, patches}, 1) + pos_embedding;
  for (const auto& block : blocks) y = (*block)(y);
  return head(ln(y).select(1, 0));
}

nn::StateDict VisionTransformer::with_current_names(const nn::StateDict& weights) {
  nn::StateDict result;
  for (const auto& [key, tensor] : weights) {
    std::string name = key;
    for (const auto& [old, current] : {std::pair{".mlp.linear_1.", ".mlp.0."}, {".mlp.linear_2.", ".mlp.3."}}) {
      const std::size_t place = name.find(old);
      if (place != std::string::npos) name.replace(place, std::string_view(old).size(), current);
    }
    result.push_back(std::move(name), tensor);
  }
  return result;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
