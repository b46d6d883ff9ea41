#include <lockstep/models/dinov2.h>

#include <cmath>

#include <fmt/format.h>

#include <lockstep/check.h>

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

constexpr nn::LayerNormOptions kDinoNorm{.eps = 1e-6};
constexpr std::int64_t kDinoHeadChannels = 64;

// x [N, L, C]. Each branch is scaled channel by channel.
class DinoBlock : public nn::Layer {
 public:
  DinoBlock(nn::Module& parent, std::string name, const DinoV2Options& o)
      : Layer(parent, std::move(name)),
        heads_(o.heads),
        norm1(*this, "norm1", {o.channels}, kDinoNorm),
        query(inner, "query", o.channels, o.channels),
        key(inner, "key", o.channels, o.channels),
        value(inner, "value", o.channels, o.channels),
        dense(output, "dense", o.channels, o.channels),
        scale1(layer_scale1, "lambda1", ones({o.channels})),
        norm2(*this, "norm2", {o.channels}, kDinoNorm),
        fc1(mlp, "fc1", o.channels, o.mlp_channels),
        fc2(mlp, "fc2", o.mlp_channels, o.channels),
        scale2(layer_scale2, "lambda1", ones({o.channels})) {}

  Tensor forward(const Operand& x) const override {
    const CallScope call(x.site());
    const Shape shape = x.tensor().shape();
    const auto split = [&](const Tensor& y) {
      return y.reshape({shape[0], shape[1], heads_, shape[2] / heads_}).transpose(1, 2);
    };
    const Tensor normed = norm1(x);
    const Tensor mixed = scaled_dot_product_attention(split(query(normed)), split(key(normed)), split(value(normed)));
    const Tensor y = dense(mixed.transpose(1, 2).reshape(shape)) * scale1.tensor() + x.tensor();
    return fc2(gelu(fc1(norm2(y)))) * scale2.tensor() + y;
  }

 private:
  std::int64_t heads_;
  nn::LayerNorm norm1;
  nn::Module attention{*this, "attention"};
  nn::Module inner{attention, "attention"};
  nn::Linear query;
  nn::Linear key;
  nn::Linear value;
  nn::Module output{attention, "output"};
  nn::Linear dense;
  nn::Module layer_scale1{*this, "layer_scale1"};
  nn::Parameter scale1;
  nn::LayerNorm norm2;
  nn::Module mlp{*this, "mlp"};
  nn::Linear fc1;
  nn::Linear fc2;
  nn::Module layer_scale2{*this, "layer_scale2"};
  nn::Parameter scale2;
};

const DinoV2Options& checked_dino(const DinoV2Options& o) {
  const bool fits = o.channels >= 1 && o.heads >= 1 && o.channels % o.heads == 0 && o.depth >= 1 &&
                    o.mlp_channels >= 1 && o.patch >= 1 && o.image_size >= o.patch && o.image_size % o.patch == 0;
  if (!fits) {
    throw ValueError(
        fmt::format("DinoV2: no network has {} channels, {} heads, {} layers, {} channels between and patches "
                    "of {} in pictures of {}",
                    o.channels, o.heads, o.depth, o.mlp_channels, o.patch, o.image_size));
  }
  return o;
}

std::int64_t dino_patches(const DinoV2Options& options) {
  const std::int64_t side = options.image_size / options.patch;
  return side * side;
}

}  // namespace

DinoV2::DinoV2(const DinoV2Options& options)
    : options_(checked_dino(options)),
      cls_token(embeddings, "cls_token", randn({1, 1, options.channels}) * 0.02),
      mask_token(embeddings, "mask_token", zeros({1, options.channels})),
      position_embeddings(embeddings, "position_embeddings",
                          randn({1, dino_patches(options) + 1, options.channels}) * 0.02),
      projection(patch_embeddings, "projection", 3, options.channels, {options.patch}, {.stride = {options.patch}}),
      layernorm(*this, "layernorm", {options.channels}, kDinoNorm) {
  for (std::int64_t i = 0; i < options.depth; ++i) {
    blocks.push_back(std::make_unique<DinoBlock>(layer, std::to_string(i), options_));
  }
}

Preprocessing DinoV2::preprocessing() {
  return {.fit = Preprocessing::Fit::crop,
          .shorter_side = 256,
          .width = 224,
          .height = 224,
          .filter = io::ResizeFilter::bicubic,
          .mean = {0.485f, 0.456f, 0.406f},
          .deviation = {0.229f, 0.224f, 0.225f}};
}

// The table for a grid of so many patches: [1, 1 + patches, channels].
Tensor DinoV2::positions(std::int64_t rows, std::int64_t columns) const {
  const Tensor table = position_embeddings.tensor();
  const std::int64_t side = options_.image_size / options_.patch;
  if (rows == side && columns == side) return table;
  const std::int64_t channels = options_.channels;
  const Tensor grid = table.narrow(1, 1, side * side).reshape({1, side, side, channels}).permute({0, 3, 1, 2});
  const Tensor resized = interpolate(grid, {.size = {rows, columns}, .mode = Interpolation::bicubic});
  return cat({table.narrow(1, 0, 1), resized.permute({0, 2, 3, 1}).reshape({1, rows * columns, channels})}, 1);
}

Tensor DinoV2::hidden_states(const Operand& x) const {
  const CallScope call("DinoV2", x);
  const Shape& shape = tensor_operand(x).shape();
  const std::int64_t patch = options_.patch;
  const bool fits = shape.rank() == 4 && shape[1] == 3 && shape[2] >= patch && shape[3] >= patch &&
                    shape[2] % patch + shape[3] % patch == 0;
  check<ShapeError>(fits, fmt::format("pictures must be [N, 3, H, W] with H and W multiples of {}", patch),
                    {{"input", x}});
  const Tensor patches = projection(x).flatten(2).transpose(1, 2);
  const Tensor first = cls_token.tensor().expand({shape[0], 1, options_.channels});
  Tensor y = cat({first, patches}, 1) + positions(shape[2] / patch, shape[3] / patch);
  for (const auto& block : blocks) y = (*block)(y);
  return layernorm(y);
}

Tensor DinoV2::forward(const Operand& x) const {
  const CallScope call("DinoV2", x);
  return hidden_states(x).select(1, 0);
}

nn::StateDict DinoV2::with_published_names(const nn::StateDict& weights) {
  nn::StateDict result;
  for (const auto& [key, tensor] : weights) {
    std::string name = key;
    for (const auto& [current, published] : {std::pair{".attention.q_proj.", ".attention.attention.query."},
                                             {".attention.k_proj.", ".attention.attention.key."},
                                             {".attention.v_proj.", ".attention.attention.value."},
                                             {".attention.o_proj.", ".attention.output.dense."}}) {
      const std::size_t place = name.find(current);
      if (place != std::string::npos) name.replace(place, std::string_view(current).size(), published);
    }
    result.push_back(std::move(name), tensor);
  }
  return result;
}

std::unique_ptr<DinoV2> DinoV2::load(const nn::StateDict& given, Device device, CallSite site) {
  const CallScope call("DinoV2::load", site);
  const nn::StateDict weights = with_published_names(given);
  const auto shape_of = [&](const char* key, int rank) {
    const Tensor* found = weights.find(key);
    if (found == nullptr || !found->defined() || found->rank() != rank || found->numel() == 0) {
      fail<ValueError>(fmt::format("these are no weights of DINOv2: there is no {}", key), {},
                       "give a file of transformers' Dinov2Model, e.g. that of facebook/dinov2-small");
    }
    return found->shape();
  };
  const Shape table = shape_of("embeddings.position_embeddings", 3);
  DinoV2Options options{.channels = table[2], .heads = table[2] / kDinoHeadChannels, .depth = 0};
  options.mlp_channels = shape_of("encoder.layer.0.mlp.fc1.weight", 2)[0];
  while (weights.find(fmt::format("encoder.layer.{}.mlp.fc1.weight", options.depth)) != nullptr) ++options.depth;
  options.patch = shape_of("embeddings.patch_embeddings.projection.weight", 4)[2];
  options.image_size = std::llround(std::sqrt(static_cast<double>(table[1] - 1))) * options.patch;
  auto model = std::make_unique<DinoV2>(options);
  model->load_state_dict(weights, {});
  model->eval();
  model->to(device);
  return model;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
