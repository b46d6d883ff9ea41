// CLIP's two towers: transformers with the norm in front, one over patches of a picture, one over the tokens of a text.
#include <lockstep/models/clip.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <lockstep/check.h>

namespace lockstep {
inline namespace v0 {
namespace models {
namespace clip {  // not unnamed: members of a named class

constexpr std::int64_t kHeadChannels = 64;

Tensor quick_gelu(const Tensor& x) {
  return x * sigmoid(x * 1.702);
}

Tensor normalised(const Tensor& features) {
  return features / norm(features, -1, true);
}

// x [N, L, C]
class ClipLayer : public nn::Module {
 public:
  ClipLayer(nn::Module& parent, std::string name, const ClipTowerOptions& options)
      : Module(parent, std::move(name)),
        heads_(options.heads),
        k_proj(self_attn, "k_proj", options.channels, options.channels),
        v_proj(self_attn, "v_proj", options.channels, options.channels),
        q_proj(self_attn, "q_proj", options.channels, options.channels),
        out_proj(self_attn, "out_proj", options.channels, options.channels),
        layer_norm1(*this, "layer_norm1", {options.channels}),
        fc1(mlp, "fc1", options.channels, options.mlp_channels),
        fc2(mlp, "fc2", options.mlp_channels, options.channels),
        layer_norm2(*this, "layer_norm2", {options.channels}) {}

  Tensor operator()(const Tensor& x, bool causal) const {
    const Shape& shape = x.shape();
    const auto split = [&](const Tensor& y) {
      return y.reshape({shape[0], shape[1], heads_, shape[2] / heads_}).transpose(1, 2);
    };
    const Tensor normed = layer_norm1(x);
    const Tensor mixed = scaled_dot_product_attention(split(q_proj(normed)), split(k_proj(normed)),
                                                      split(v_proj(normed)), {.causal = causal});
    const Tensor y = x + out_proj(mixed.transpose(1, 2).reshape(shape));
    return y + fc2(quick_gelu(fc1(layer_norm2(y))));
  }

 private:
  std::int64_t heads_;
  nn::Module self_attn{*this, "self_attn"};
  nn::Linear k_proj;
  nn::Linear v_proj;
  nn::Linear q_proj;
  nn::Linear out_proj;
  nn::LayerNorm layer_norm1;
  nn::Module mlp{*this, "mlp"};
  nn::Linear fc1;
  nn::Linear fc2;
  nn::LayerNorm layer_norm2;
};

// The blocks of a tower, under <tower>.encoder.layers.
class ClipTower {
 public:
  ClipTower(nn::Module& tower, const ClipTowerOptions& options) : encoder(tower, "encoder"), layers(encoder, "layers") {
    for (std::int64_t i = 0; i < options.depth; ++i) layers.add<ClipLayer>(options);
  }
  Tensor operator()(Tensor x, bool causal) const {
    for (std::size_t i = 0; i < layers.size(); ++i) x = layers[i](x, causal);
    return x;
  }

 private:
  nn::Module encoder;
  nn::ModuleList<ClipLayer> layers;
};

const ClipOptions& checked_clip(const ClipOptions& o) {
  for (const ClipTowerOptions* tower : {&o.text, &o.vision}) {
    if (tower->channels < 1 || tower->heads < 1 || tower->channels % tower->heads != 0 || tower->depth < 1 ||
        tower->mlp_channels < 1) {
      throw ValueError(fmt::format("Clip: no tower has {} channels, {} heads, {} layers and {} channels between",
                                   tower->channels, tower->heads, tower->depth, tower->mlp_channels));
    }
  }
  if (o.patch < 1 || o.image_size < o.patch || o.image_size % o.patch != 0) {
    throw ValueError(fmt::format("Clip: patches of {} do not divide pictures of {}", o.patch, o.image_size));
  }
  if (o.vocabulary < 1 || o.context < 1 || o.projection < 1) {
    throw ValueError(fmt::format("Clip: no network has {} tokens, texts of {} and a space of {}", o.vocabulary,
                                 o.context, o.projection));
  }
  return o;
}

std::int64_t clip_patches(const ClipOptions& options) {
  const std::int64_t side = options.image_size / options.patch;
  return side * side;
}

}  // namespace clip

using namespace clip;

struct Clip::Parts {
  Parts(nn::Module& root, const ClipOptions& o)
      : options(o),
        text_model(root, "text_model"),
        text_embeddings(text_model, "embeddings"),
        token_embedding(text_embeddings, "token_embedding", o.vocabulary, o.text.channels),
        text_positions(text_embeddings, "position_embedding", o.context, o.text.channels),
        text(text_model, o.text),
        final_layer_norm(text_model, "final_layer_norm", {o.text.channels}),
        vision_model(root, "vision_model"),
        vision_embeddings(vision_model, "embeddings"),
        class_embedding(vision_embeddings, "class_embedding", randn({o.vision.channels}) * 0.02),
        patch_embedding(vision_embeddings, "patch_embedding", 3, o.vision.channels, {o.patch},
                        {.stride = {o.patch}, .bias = false}),
        vision_positions(vision_embeddings, "position_embedding", clip_patches(o) + 1, o.vision.channels),
        pre_layrnorm(vision_model, "pre_layrnorm", {o.vision.channels}),
        vision(vision_model, o.vision),
        post_layernorm(vision_model, "post_layernorm", {o.vision.channels}),
        visual_projection(root, "visual_projection", o.vision.channels, o.projection, {.bias = false}),
        text_projection(root, "text_projection", o.text.channels, o.projection, {.bias = false}),
        logit_scale(root, "logit_scale", full({}, std::log(1 / 0.07))) {}

  Tensor image_features(const Tensor& pictures) const {
    const Shape& shape = pictures.shape();
    const std::int64_t side = options.image_size;
    check<ShapeError>(shape.rank() == 4 && shape[1] == 3 && shape[2] == side && shape[3] == side,
                      fmt::format("pictures must be [N, 3, {}, {}]", side, side), {{"pictures", pictures}});
    const Tensor patches = patch_embedding(pictures).flatten(2).transpose(1, 2);
    const Tensor first = class_embedding.tensor().expand({shape[0], 1, options.vision.channels});
    const Tensor x = cat({first, patches}, 1) + vision_positions.weight;
    return visual_projection(post_layernorm(vision(pre_layrnorm(x), false).select(1, 0)));
  }

  Tensor text_features(const Tensor& tokens) const {
    const Shape& shape = tokens.shape();
    check<ShapeError>(shape.rank() == 2 && shape[1] >= 1 && shape[1] <= options.context,
                      fmt::format("tokens must be [N, L] with L from 1 to {}", options.context), {{"tokens", tokens}});
    const Tensor x = token_embedding(tokens) + text_positions.weight.tensor().narrow(0, 0, shape[1]);
    const Tensor y = final_layer_norm(text(x, true));
    const Tensor last = argmax(tokens, 1).reshape({shape[0], 1, 1}).expand({shape[0], 1, options.text.channels});
    return text_projection(gather(y, 1, last).squeeze(1));
  }

  Tensor logits(const Tensor& images, const Tensor& texts) const {
    return matmul(normalised(images), normalised(texts).transpose(0, 1)) * exp(logit_scale.tensor());
  }

  ClipOptions options;
  nn::Module text_model;
  nn::Module text_embeddings;
  nn::Embedding token_embedding;
  nn::Embedding text_positions;
  ClipTower text;
  nn::LayerNorm final_layer_norm;
  nn::Module vision_model;
  nn::Module vision_embeddings;
  nn::Parameter class_embedding;
  nn::Conv2d patch_embedding;
  nn::Embedding vision_positions;
  nn::LayerNorm pre_layrnorm;
  ClipTower vision;
  nn::LayerNorm post_layernorm;
  nn::Linear visual_projection;
  nn::Linear text_projection;
  nn::Parameter logit_scale;
};

Clip::Clip(const ClipOptions& options)
    : options_(checked_clip(options)), parts_(std::make_unique<Parts>(*this, options_)) {}
Clip::~Clip() = default;

Tensor Clip::image_features(const Operand& pictures) const {
  const CallScope call("Clip::image_features", pictures);
  return parts_->image_features(tensor_operand(pictures));
}

Tensor Clip::text_features(const Operand& tokens) const {
  const CallScope call("Clip::text_features", tokens);
  return parts_->text_features(tensor_operand(tokens));
}

Tensor Clip::logits(const Operand& image_features, const Operand& text_features) const {
  const CallScope call("Clip::logits", image_features);
  return parts_->logits(tensor_operand(image_features), tensor_operand(text_features));
}

Preprocessing Clip::preprocessing(std::int64_t image_size) {
  const int side = static_cast<int>(image_size);
  return {.fit = Preprocessing::Fit::crop,
          .shorter_side = side,
          .width = side,
          .height = side,
          .filter = io::ResizeFilter::bicubic,
          .mean = {0.48145466f, 0.4578275f, 0.40821073f},
          .deviation = {0.26862954f, 0.26130258f, 0.27577711f}};
}

nn::StateDict Clip::with_current_names(const nn::StateDict& weights) {
  nn::StateDict result;
  for (const auto& [key, tensor] : weights) {
    if (!key.ends_with(".position_ids")) result.push_back(key, tensor);
  }
  return result;
}

ClipOptions Clip::options_of(const nn::StateDict& weights) {
  const auto shape_of = [&](const std::string& key, int rank) {
    const Tensor* found = weights.find(key);
    if (found == nullptr || !found->defined() || found->rank() != rank || found->numel() == 0) {
      fail<ValueError>(fmt::format("these are no weights of CLIP: there is no {}", key), {},
                       "give a file of transformers' CLIPModel, e.g. that of openai/clip-vit-base-patch32");
    }
    return found->shape();
  };
  const auto tower_of = [&](const std::string& tower) {
    const std::string layers = tower + ".encoder.layers.";
    const Shape between = shape_of(layers + "0.mlp.fc1.weight", 2);
    ClipTowerOptions options{
        .channels = between[1], .heads = between[1] / kHeadChannels, .depth = 0, .mlp_channels = between[0]};
    while (weights.find(fmt::format("{}{}.mlp.fc1.weight", layers, options.depth)) != nullptr) ++options.depth;
    return options;
  };
  ClipOptions options{.text = tower_of("text_model"), .vision = tower_of("vision_model")};
  options.vocabulary = shape_of("text_model.embeddings.token_embedding.weight", 2)[0];
  options.context = shape_of("text_model.embeddings.position_embedding.weight", 2)[0];
  options.patch = shape_of("vision_model.embeddings.patch_embedding.weight", 4)[2];
  const std::int64_t places = shape_of("vision_model.embeddings.position_embedding.weight", 2)[0];
  options.image_size = std::llround(std::sqrt(static_cast<double>(places - 1))) * options.patch;
  options.projection = shape_of("visual_projection.weight", 2)[0];
  return checked_clip(options);
}

std::unique_ptr<Clip> Clip::load(const nn::StateDict& given, Device device, CallSite site) {
  const CallScope call("Clip::load", site);
  const nn::StateDict weights = with_current_names(given);
  auto model = std::make_unique<Clip>(options_of(weights));
  model->load_state_dict(weights, {});
  model->eval();
  model->to(device);
  return model;
}

Tensor clip_tokens(const text::Tokenizer& tokenizer, const std::vector<std::string>& texts, std::int64_t context) {
  std::vector<std::vector<std::int64_t>> rows;
  std::size_t longest = 1;
  for (const std::string& text : texts) {
    rows.push_back(tokenizer.encode(text));
    if (rows.back().empty()) throw ValueError(fmt::format("clip_tokens: \"{}\" has no tokens", text));
    if (rows.back().size() > static_cast<std::size_t>(context)) {
      throw ValueError(
          fmt::format("clip_tokens: \"{}\" has {} tokens, at most {} fit", text, rows.back().size(), context));
    }
    longest = std::max(longest, rows.back().size());
  }
  std::vector<std::int64_t> all;
  for (std::vector<std::int64_t>& row : rows) {
    row.resize(longest, row.back());
    all.insert(all.end(), row.begin(), row.end());
  }
  return Tensor::from(all, {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(longest)});
}

ClipClassifier::ClipClassifier(const ClipOptions& options, Tensor tokens)
    : tokens_(std::move(tokens)), parts_(std::make_unique<Clip::Parts>(*this, checked_clip(options))) {}
ClipClassifier::~ClipClassifier() = default;

Tensor ClipClassifier::forward(const Operand& x) const {
  const CallScope call("ClipClassifier", x);
  const Tensor& pictures = tensor_operand(x);
  const Tensor images = parts_->image_features(pictures);
  return parts_->logits(images, parts_->text_features(tokens_.to(pictures.device())));
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
