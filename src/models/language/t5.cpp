#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "kernels/scalar.h"
#include "models/language/families.h"
#include "models/language/feed_forward.h"
#include "models/language/t5.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

class T5 final : public EncoderDecoder {
 public:
  explicit T5(const T5Config& config);
  Tensor forward_pair(const Tensor& input, const Tensor& ids, CallSite site) const override;

 private:
  struct Layer {
    Norm first, cross_norm, last;
    PlainAttention attention, cross;
    FeedForward feed;
  };
  struct Half {
    nn::Parameter bias;  ///< By bucket and head; the first layer's, which all use.
    std::vector<Layer> layers;
    Norm norm;
  };
  Half make_half(const std::string& path, std::int64_t layers, bool decoder);
  Tensor run(const Half& half, const Tensor& ids, const Tensor* memory) const;
  Tensor distances(const Half& half, std::int64_t length, bool decoder, Device device) const;

  T5Config config_;
  ParameterTree tree_{*this};
  nn::Parameter embedding_;
  Half encoder_, decoder_;
  Projection head_;
};

T5::T5(const T5Config& config) : EncoderDecoder("t5", config.vocabulary), config_(config) {
  embedding_ = tree_.matrix("shared.weight", {config.vocabulary, config.hidden});
  encoder_ = make_half("encoder", config.encoder_layers, false);
  decoder_ = make_half("decoder", config.decoder_layers, true);
  if (!config.tied) head_ = Projection(tree_, "lm_head", config.hidden, config.vocabulary, false);
}

T5::Half T5::make_half(const std::string& path, std::int64_t layers, bool decoder) {
  Half half;
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string block = fmt::format("{}.block.{}.layer.", path, i);
    const std::string feed = block + (decoder ? "2." : "1.");
    const auto norm = [&](const std::string& at) {
      return Norm(tree_, at + "layer_norm", config_.hidden, config_.norm);
    };
    Layer& layer = half.layers.emplace_back();
    layer.attention =
        PlainAttention(tree_, block + "0.SelfAttention.", {"q", "k", "v", "o"}, config_.hidden, config_.attention);
    if (i == 0) {
      half.bias = tree_.matrix(block + "0.SelfAttention.relative_attention_bias.weight",
                               {config_.buckets, config_.attention.heads});
    }
    layer.first = norm(block + "0.");
    if (decoder) {
      layer.cross =
          PlainAttention(tree_, block + "1.EncDecAttention.", {"q", "k", "v", "o"}, config_.hidden, config_.attention);
      layer.cross_norm = norm(block + "1.");
    }
    const std::string up = feed + (config_.feed.gated ? "DenseReluDense.wi_1" : "DenseReluDense.wi");
    layer.feed =
        FeedForward(tree_, config_.feed, feed + "DenseReluDense.wi_0", up, feed + "DenseReluDense.wo", config_.hidden);
    layer.last = norm(feed);
  }
  half.norm = Norm(tree_, path + ".final_layer_norm", config_.hidden, config_.norm);
  return half;
}

// Short distances have a bucket each, long ones share them by their logarithm.
Tensor T5::distances(const Half& half, std::int64_t length, bool decoder, Device device) const {
  const std::int64_t directions = decoder ? 1 : 2;
  const std::int64_t count = config_.buckets / directions;
  const std::int64_t exact = count / 2;
  const float range =
      static_cast<float>(scalar::ls_log(static_cast<double>(config_.farthest) / static_cast<double>(exact)));
  std::vector<std::int64_t> buckets;
  for (std::int64_t query = 0; query < length; ++query) {
    for (std::int64_t key = 0; key < length; ++key) {
      const std::int64_t ahead = key - query;
      const std::int64_t distance = decoder ? std::max(-ahead, std::int64_t{0}) : std::abs(ahead);
      std::int64_t bucket = distance;
      if (distance >= exact) {
        const float ratio = static_cast<float>(distance) / static_cast<float>(exact);
        const float share = static_cast<float>(scalar::ls_log(static_cast<double>(ratio))) / range;
        bucket = std::min(exact + static_cast<std::int64_t>(share * static_cast<float>(count - exact)), count - 1);
      }
      buckets.push_back(bucket + (!decoder && ahead > 0 ? count : 0));
    }
  }
  return embedding(half.bias, Tensor::from(buckets, {length, length}, device)).permute({2, 0, 1}).unsqueeze(0);
}

Tensor T5::run(const Half& half, const Tensor& ids, const Tensor* memory) const {
  const bool decoder = memory != nullptr;
  Tensor x = embedding(embedding_, ids);
  const Tensor bias = distances(half, ids.size(1), decoder, ids.device());
  for (const Layer& layer : half.layers) {
    const Tensor input = layer.first(x);
    x = x + layer.attention(input, input, decoder, bias);
    if (decoder) x = x + layer.cross(layer.cross_norm(x), *memory, false, {});
    x = x + layer.feed(layer.last(x));
  }
  return half.norm(x);
}

Tensor T5::forward_pair(const Tensor& input, const Tensor& ids, CallSite site) const {
  const CallScope call("LanguageModel", site);
  if (input.rank() != 2 || ids.rank() != 2 || input.size(1) == 0 || ids.size(1) == 0) {
    throw ShapeError("t5: input and decoder ids are [N, L] with L > 0");
  }
  const Tensor memory = run(encoder_, input, nullptr);
  Tensor x = run(decoder_, ids, &memory);
  if (config_.scaled) x = x * (1 / std::sqrt(static_cast<double>(config_.hidden)));
  const Tensor& embedding = embedding_;
  return config_.tied ? linear(x, embedding) : head_(x);
}

}  // namespace

std::unique_ptr<LanguageModel> make_t5(const T5Config& config) {
  return std::make_unique<T5>(config);
}

std::unique_ptr<LanguageModel> create_t5(const io::JsonFields& config) {
  T5Config result;
  result.vocabulary = config.integer("vocab_size", 1, kMaxSize);
  result.hidden = config.integer("d_model", 1, kMaxSize);
  result.encoder_layers = config.integer("num_layers", 1, 1024);
  result.decoder_layers = config.integer_or("num_decoder_layers", result.encoder_layers, 1, 1024);
  result.buckets = config.integer_or("relative_attention_num_buckets", 32, 4, 65'536);
  result.farthest = config.integer_or("relative_attention_max_distance", 128, 1, INT32_MAX);
  if (result.farthest <= result.buckets / 2) config.fail("relative_attention_max_distance", "is below the buckets");
  result.attention = {.heads = config.integer("num_heads", 1, 65'536), .head_dim = config.integer("d_kv", 1, 65'536)};
  result.norm.eps = config.real_or("layer_norm_epsilon", 1e-6);
  const bool newer = config.text("model_type") == "mt5";  // the second version's words are its defaults
  const std::string kind = config.text_or("feed_forward_proj", newer ? "gated-gelu" : "relu");
  result.feed = {.size = config.integer("d_ff", 1, kMaxSize), .gated = kind == "gated-gelu"};
  if (kind != "relu" && kind != "gated-gelu")
    config.fail("feed_forward_proj", "only relu and gated-gelu are supported");
  result.feed.activation = result.feed.gated ? Activation::gelu_tanh : Activation::relu;
  result.tied = config.flag_or("tie_word_embeddings", !newer);
  result.scaled = config.flag_or("scale_decoder_outputs", result.tied && !newer);
  return make_t5(result);
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
