#include "models/language/whisper.h"

#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "models/language/families.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

constexpr NormConfig kNorm{.kind = NormKind::layer, .bias = true, .eps = 1e-5};

}  // namespace

Whisper::Whisper(const WhisperConfig& config) : EncoderDecoder("whisper", config.vocabulary), config_(config) {
  const std::string encoder = "model.encoder.";
  const std::string decoder = "model.decoder.";
  const std::int64_t hidden = config.hidden;
  conv1_ = tree_.matrix(encoder + "conv1.weight", {hidden, config.mels, 3});
  conv1_bias_ = tree_.filled(encoder + "conv1.bias", {hidden}, 0);
  conv2_ = tree_.matrix(encoder + "conv2.weight", {hidden, hidden, 3});
  conv2_bias_ = tree_.filled(encoder + "conv2.bias", {hidden}, 0);
  frames_ = tree_.matrix(encoder + "embed_positions.weight", {config.frames, hidden});
  for (std::int64_t i = 0; i < config.encoder_layers; ++i) {
    encoder_.push_back(
        make_layer(fmt::format("{}layers.{}.", encoder, i), config.encoder_heads, config.encoder_inner, false));
  }
  encoder_norm_ = Norm(tree_, encoder + "layer_norm", hidden, kNorm);
  embedding_ = tree_.matrix(decoder + "embed_tokens.weight", {config.vocabulary, hidden});
  positions_ = tree_.matrix(decoder + "embed_positions.weight", {config.positions, hidden});
  for (std::int64_t i = 0; i < config.decoder_layers; ++i) {
    decoder_.push_back(
        make_layer(fmt::format("{}layers.{}.", decoder, i), config.decoder_heads, config.decoder_inner, true));
  }
  decoder_norm_ = Norm(tree_, decoder + "layer_norm", hidden, kNorm);
}

Whisper::Layer Whisper::make_layer(const std::string& path, std::int64_t heads, std::int64_t inner, bool decoder) {
  const std::int64_t size = config_.hidden / heads;
  const PlainAttention::Options options{
      .heads = heads, .head_dim = size, .bias = true, .scale = 1 / std::sqrt(static_cast<double>(size))};
  const PlainAttention::Names names{"q_proj", "k_proj", "v_proj", "out_proj"};
  const auto norm = [&](const char* name) { return Norm(tree_, path + name, config_.hidden, kNorm); };
  Layer layer;
  layer.attention = PlainAttention(tree_, path + "self_attn.", names, config_.hidden, options);
  layer.first = norm("self_attn_layer_norm");
  if (decoder) {
    layer.cross = PlainAttention(tree_, path + "encoder_attn.", names, config_.hidden, options);
    layer.cross_norm = norm("encoder_attn_layer_norm");
  }
  const FeedForwardConfig feed{.size = inner, .gated = false, .bias = true, .activation = config_.activation};
  layer.feed = FeedForward(tree_, feed, "", path + "fc1", path + "fc2", config_.hidden);
  layer.last = norm("final_layer_norm");
  return layer;
}

WhisperMemory Whisper::encode(const Tensor& features) const {
  if (features.rank() != 3 || features.size(1) != config_.mels || features.size(2) != 2 * config_.frames) {
    throw ShapeError(fmt::format("whisper: the features have the shape {}, not [N, {}, {}]",
                                 features.shape().to_string(), config_.mels, 2 * config_.frames));
  }
  Tensor x = gelu(conv1d(features, conv1_, Tensor(conv1_bias_), {.padding = {1}}));
  x = gelu(conv1d(x, conv2_, Tensor(conv2_bias_), {.stride = {2}, .padding = {1}}));
  x = x.transpose(1, 2) + dequantize(Tensor(frames_));
  for (const Layer& layer : encoder_) {
    const Tensor normal = layer.first(x);
    x = x + layer.attention(normal, normal, false, {});
    x = x + layer.feed(layer.last(x));
  }
  x = encoder_norm_(x);
  WhisperMemory memory;
  memory.past.resize(decoder_.size());
  for (const Layer& layer : decoder_) memory.window.push_back(layer.cross.keys_and_values(x));
  return memory;
}

Tensor Whisper::decode(WhisperMemory& memory, const Tensor& ids) const {
  const Positions places{memory.length, ids.rank() == 2 ? ids.size(1) : 0};
  if (places.length == 0 || places.end() > config_.positions) {
    throw ShapeError(fmt::format("whisper: the decoder's ids have the shape {}, not [N, 1 to {}]",
                                 ids.shape().to_string(), config_.positions - memory.length));
  }
  Tensor x = embedding(embedding_, ids);
  if (config_.embedding_scale != 1) x = x * config_.embedding_scale;
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(places.length));
  std::iota(numbers.begin(), numbers.end(), places.first);
  x = x + embedding(positions_, Tensor::from(numbers, {places.length}, ids.device()));
  for (std::size_t i = 0; i < decoder_.size(); ++i) {
    const Layer& layer = decoder_[i];
    const Tensor normal = layer.first(x);
    const KeysAndValues own = layer.attention.keys_and_values(normal);
    LayerMemory& past = memory.past[i];
    past.keys.put(places, own.keys);
    past.values.put(places, own.values);
    x = x + layer.attention.attend(normal, {past.keys.all(), past.values.all()},
                                   {.causal = true, .first_query = places.first});
    x = x + layer.cross.attend(layer.cross_norm(x), memory.window[i], {});
    x = x + layer.feed(layer.last(x));
  }
  memory.length = places.end();
  const Tensor& embedding = embedding_;
  return linear(decoder_norm_(x), embedding);
}

Tensor Whisper::forward_pair(const Tensor& input, const Tensor& ids, CallSite site) const {
  const CallScope call("LanguageModel", site);
  WhisperMemory memory = encode(input);
  return decode(memory, ids);
}

std::unique_ptr<LanguageModel> create_whisper(const io::JsonFields& config) {
  WhisperConfig result;
  result.vocabulary = config.integer("vocab_size", 1, kMaxSize);
  result.hidden = config.integer("d_model", 1, kMaxSize);
  result.mels = config.integer_or("num_mel_bins", 80, 1, 65'536);
  result.frames = config.integer_or("max_source_positions", 1500, 1, kMaxSize);
  result.positions = config.integer_or("max_target_positions", 448, 1, kMaxSize);
  result.encoder_layers = config.integer("encoder_layers", 1, 1024);
  result.decoder_layers = config.integer("decoder_layers", 1, 1024);
  result.encoder_heads = config.integer("encoder_attention_heads", 1, result.hidden);
  result.decoder_heads = config.integer("decoder_attention_heads", 1, result.hidden);
  result.encoder_inner = config.integer("encoder_ffn_dim", 1, kMaxSize);
  result.decoder_inner = config.integer("decoder_ffn_dim", 1, kMaxSize);
  result.activation = read_activation(config, "activation_function", "gelu");
  if (config.flag_or("scale_embedding", false)) result.embedding_scale = std::sqrt(static_cast<double>(result.hidden));
  return std::make_unique<Whisper>(result);
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
