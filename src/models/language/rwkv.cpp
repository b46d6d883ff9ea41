#include "models/language/rwkv.h"

#include <fmt/format.h>

#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

// Where each tensor of a layer's state stands.
enum Place : std::size_t { kAttentionLast, kFeedLast, kNumerator, kDenominator, kLargest, kPlaces };

Tensor mix(const Tensor& x, const Tensor& before, const nn::Parameter& share) {
  const Tensor& m = share;
  return x * m + before * (1 - m);
}

}  // namespace

Rwkv::Rwkv(const RwkvConfig& config)
    : StateModel(config.family, config.vocabulary, static_cast<std::size_t>(config.layers)), config_(config) {
  const bool named = config.published;
  const std::int64_t hidden = config.hidden;
  const NormConfig norm{.kind = NormKind::layer, .bias = true, .eps = config.eps};
  const std::string root = named ? "rwkv." : "";
  embedding_ = tree_.matrix(root + (named ? "embeddings.weight" : "emb.weight"), {config.vocabulary, hidden});
  for (std::int64_t i = 0; i < config.layers; ++i) {
    Layer& layer = layers_.emplace_back();
    const std::string path = fmt::format("{}blocks.{}.", root, i);
    const std::string att = path + (named ? "attention." : "att.");
    const std::string ffn = path + (named ? "feed_forward." : "ffn.");
    const Shape share = named ? Shape{1, 1, hidden} : Shape{hidden};
    const auto mixed = [&](const std::string& half, const char* published, const char* original) {
      return tree_.filled(half + "time_mix_" + (named ? published : original), share, 0.5);
    };
    if (i == 0) layer.before = Norm(tree_, path + (named ? "pre_ln" : "ln0"), hidden, norm);
    layer.first = Norm(tree_, path + "ln1", hidden, norm);
    layer.second = Norm(tree_, path + "ln2", hidden, norm);
    const Shape per_feature =
        config.version == 4 ? Shape{config.attention} : Shape{config.heads, config.attention / config.heads, 1};
    layer.decay = tree_.filled(att + "time_decay", per_feature, 0.5);
    layer.bonus = tree_.filled(att + (config.version == 4 ? "time_first" : "time_faaaa"), per_feature, 0);
    layer.mix_key = mixed(att, "key", "k");
    layer.mix_value = mixed(att, "value", "v");
    layer.mix_receptance = mixed(att, "receptance", "r");
    layer.key = Projection(tree_, att + "key", hidden, config.attention, false);
    layer.value = Projection(tree_, att + "value", hidden, config.attention, false);
    layer.receptance = Projection(tree_, att + "receptance", hidden, config.attention, false);
    layer.output = Projection(tree_, att + "output", config.attention, hidden, false);
    if (config.version == 5) {
      layer.mix_gate = mixed(att, "gate", "g");
      layer.gate = Projection(tree_, att + "gate", hidden, config.attention, false);
      layer.group_weight = tree_.filled(att + "ln_x.weight", {config.attention}, 1);
      layer.group_bias = tree_.filled(att + "ln_x.bias", {config.attention}, 0);
    }
    layer.feed_mix_key = mixed(ffn, "key", "k");
    layer.feed_mix_receptance = mixed(ffn, "receptance", "r");
    layer.feed_key = Projection(tree_, ffn + "key", hidden, config.inner, false);
    layer.feed_value = Projection(tree_, ffn + "value", config.inner, hidden, false);
    layer.feed_receptance = Projection(tree_, ffn + "receptance", hidden, hidden, false);
  }
  norm_ = Norm(tree_, root + "ln_out", hidden, norm);
  head_ = Projection(tree_, "head", hidden, config.vocabulary, false);
}

Tensor Rwkv::embed(const Tensor& ids) const {
  return embedding(embedding_, ids);
}

// Sums over the past in logarithms of their largest term, so that nothing overflows.
Tensor Rwkv::attend4(const Layer& layer, const Tensor& x, State& state) const {
  const Tensor before = shifted(x, state[kAttentionLast]);
  const Tensor key = layer.key(mix(x, before, layer.mix_key));
  const Tensor value = layer.value(mix(x, before, layer.mix_value));
  const Tensor receptance = sigmoid(layer.receptance(mix(x, before, layer.mix_receptance)));
  constexpr double kNothing = -1e38;
  if (!state[kNumerator].defined()) {
    state[kNumerator] = zeros_like(key.select(1, 0));
    state[kDenominator] = state[kNumerator];
    state[kLargest] = full_like(state[kNumerator], kNothing);
  }
  const Tensor decay = -exp(layer.decay);
  std::vector<Tensor> outputs;
  for (std::int64_t t = 0; t < x.size(1); ++t) {
    const Tensor k = key.select(1, t);
    const Tensor v = value.select(1, t);
    const Tensor now = k + Tensor(layer.bonus);
    const Tensor top = maximum(state[kLargest], now);
    const Tensor old_share = exp(state[kLargest] - top);
    const Tensor new_share = exp(now - top);
    outputs.push_back((old_share * state[kNumerator] + new_share * v) / (old_share * state[kDenominator] + new_share));
    const Tensor faded = state[kLargest] + decay;
    const Tensor next = maximum(faded, k);
    const Tensor kept = exp(faded - next);
    const Tensor added = exp(k - next);
    state[kNumerator] = kept * state[kNumerator] + added * v;
    state[kDenominator] = kept * state[kDenominator] + added;
    state[kLargest] = next;
  }
  return layer.output(receptance * stack(outputs, 1));
}

// A matrix for each head, to which every position adds the product of its key and value.
Tensor Rwkv::attend5(const Layer& layer, const Tensor& x, State& state) const {
  const std::int64_t heads = config_.heads;
  const std::int64_t size = config_.attention / heads;
  const Tensor before = shifted(x, state[kAttentionLast]);
  const auto into_heads = [&](const Tensor& y) { return y.unflatten(-1, {heads, size}); };
  const Tensor key = into_heads(layer.key(mix(x, before, layer.mix_key)));
  const Tensor value = into_heads(layer.value(mix(x, before, layer.mix_value)));
  const Tensor receptance = into_heads(layer.receptance(mix(x, before, layer.mix_receptance)));
  const Tensor gate = silu(layer.gate(mix(x, before, layer.mix_gate)));
  if (!state[kNumerator].defined()) {
    state[kNumerator] = zeros({x.size(0), heads, size, size}, {.device = x.device()});
  }
  std::vector<Tensor> outputs;
  for (std::int64_t t = 0; t < x.size(1); ++t) {
    const Tensor both = key.select(1, t).unsqueeze(-1) * value.select(1, t).unsqueeze(-2);
    const Tensor seen = both * Tensor(layer.bonus) + state[kNumerator];
    outputs.push_back(matmul(receptance.select(1, t).unsqueeze(-2), seen).squeeze(-2));
    state[kNumerator] = both + state[kNumerator] * Tensor(layer.decay);
  }
  const Tensor flat = stack(outputs, 1).flatten(-2, -1);
  const Tensor rows =
      group_norm(flat.flatten(0, 1), heads, Tensor(layer.group_weight), Tensor(layer.group_bias), config_.eps);
  return layer.output(rows.reshape(flat.shape()) * gate);
}

Tensor Rwkv::feed(const Layer& layer, const Tensor& x, State& state) const {
  const Tensor before = shifted(x, state[kFeedLast]);
  const Tensor key = relu(layer.feed_key(mix(x, before, layer.feed_mix_key)));
  const Tensor receptance = sigmoid(layer.feed_receptance(mix(x, before, layer.feed_mix_receptance)));
  return receptance * layer.feed_value(key * key);
}

Tensor Rwkv::run(std::size_t index, const Tensor& x, State& state, Tensor&) const {
  const Layer& layer = layers_[index];
  state.resize(kPlaces);
  const Tensor input = layer.before(x);
  const Tensor normal = layer.first(input);
  const Tensor middle = input + (config_.version == 4 ? attend4(layer, normal, state) : attend5(layer, normal, state));
  return middle + feed(layer, layer.second(middle), state);
}

Tensor Rwkv::logits(const Tensor& x) const {
  return head_(norm_(x));
}

std::unique_ptr<LanguageModel> create_rwkv4(const io::JsonFields& config) {
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  RwkvConfig result;
  result.vocabulary = config.integer("vocab_size", 1, kMost);
  result.hidden = config.integer("hidden_size", 1, kMost);
  result.attention = config.integer_or("attention_hidden_size", result.hidden, 1, kMost);
  result.inner = config.integer_or("intermediate_size", 4 * result.hidden, 1, 4 * kMost);
  result.layers = config.integer("num_hidden_layers", 1, 1024);
  result.eps = config.real_or("layer_norm_epsilon", 1e-5);
  if (config.flag_or("tie_word_embeddings", false)) config.fail("tie_word_embeddings", "is not supported for rwkv");
  return std::make_unique<Rwkv>(result);
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
