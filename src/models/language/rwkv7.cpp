#include "models/language/rwkv7.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/ops.h>

#include "models/language/families.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

enum Rwkv7Place : std::size_t { kAttentionToken, kFeedToken, kMatrix, kRwkv7Places };

constexpr double kFastestDecay = -0.6065306597126334;  // -exp(-1/2)

}  // namespace

Rwkv7::Rwkv7(const Rwkv7Config& config)
    : StateModel("rwkv7", config.vocabulary, static_cast<std::size_t>(config.layers)), config_(config) {
  const std::int64_t hidden = config.hidden;
  const NormConfig norm{.kind = NormKind::layer, .bias = config.norm_bias, .eps = config.eps};
  embedding_ = tree_.matrix("model.embeddings.weight", {config.vocabulary, hidden});
  for (std::int64_t i = 0; i < config.layers; ++i) {
    Layer& layer = layers_.emplace_back();
    const std::string path = fmt::format("model.layers.{}.", i);
    const std::string att = path + "attn.";
    const auto low_rank = [&](const char* name, std::int64_t rank, bool bias) {
      return LowRank{Projection(tree_, att + name + "_lora.lora.0", hidden, rank, false),
                     Projection(tree_, att + name + "_lora.lora.2", rank, hidden, bias)};
    };
    const auto square = [&](const char* name) { return Projection(tree_, att + name, hidden, hidden, false); };
    if (i == 0 && config.norm_first) layer.before = Norm(tree_, path + "pre_norm", hidden, norm);
    layer.first = Norm(tree_, path + "attn_norm", hidden, norm);
    layer.second = Norm(tree_, path + "ffn_norm", hidden, norm);
    for (const auto& [name, share] :
         {std::pair{"x_r", &layer.mix_receptance}, std::pair{"x_w", &layer.mix_decay}, std::pair{"x_k", &layer.mix_key},
          std::pair{"x_v", &layer.mix_value}, std::pair{"x_a", &layer.mix_rate}, std::pair{"x_g", &layer.mix_gate}}) {
      *share = tree_.filled(att + name, {1, 1, hidden}, 0.5);
    }
    layer.key_direction = tree_.filled(att + "k_k", {hidden}, 0.71);
    layer.key_rate = tree_.filled(att + "k_a", {hidden}, 1);
    layer.bonus = tree_.filled(att + "r_k", {config.heads, hidden / config.heads}, 0);
    layer.receptance = square("r_proj");
    layer.key = square("k_proj");
    layer.value = square("v_proj");
    layer.output = square("o_proj");
    layer.decay = low_rank("w", config.decay_rank, true);
    layer.rate = low_rank("a", config.rate_rank, true);
    layer.gate = low_rank("g", config.gate_rank, false);
    if (i > 0) layer.value_share = low_rank("v", config.value_rank, true);
    layer.group_weight = tree_.filled(att + "g_norm.weight", {hidden}, 1);
    layer.group_bias = tree_.filled(att + "g_norm.bias", {hidden}, 0);
    layer.feed_mix = tree_.filled(path + "ffn.x_k", {hidden}, 0.5);
    layer.feed_key = Projection(tree_, path + "ffn.key", hidden, config.inner, false);
    layer.feed_value = Projection(tree_, path + "ffn.value", config.inner, hidden, false);
  }
  norm_ = Norm(tree_, "model.norm", hidden, norm);
  head_ = Projection(tree_, "lm_head", hidden, config.vocabulary, false);
}

Tensor Rwkv7::embed(const Tensor& ids) const {
  return embedding(embedding_, ids);
}

Tensor Rwkv7::attend(std::size_t index, const Tensor& x, State& state, Tensor& first_values) const {
  const Layer& layer = layers_[index];
  const Tensor change = shifted(x, state[kAttentionToken]) - x;
  const auto mixed = [&](const nn::Parameter& share) { return x + change * Tensor(share); };
  const auto into_heads = [&](const Tensor& y) { return y.unflatten(-1, {config_.heads, -1}); };

  const Tensor receptance = into_heads(layer.receptance(mixed(layer.mix_receptance)));
  const Tensor decay =
      into_heads(exp(sigmoid(layer.decay.up(tanh(layer.decay.down(mixed(layer.mix_decay))))) * kFastestDecay));
  const Tensor plain_key = layer.key(mixed(layer.mix_key));
  const Tensor value_input = mixed(layer.mix_value);
  Tensor value = layer.value(value_input);
  if (index == 0) {
    first_values = value;
  } else {
    const Tensor share = sigmoid(layer.value_share.up(layer.value_share.down(value_input)));
    value = value + (first_values - value) * share;
  }
  const Tensor rate = sigmoid(layer.rate.up(layer.rate.down(mixed(layer.mix_rate))));
  const Tensor gate = layer.gate.up(sigmoid(layer.gate.down(mixed(layer.mix_gate))));

  // What is forgotten is the part of the state along a key of length one.
  const Tensor long_key = into_heads(plain_key * Tensor(layer.key_direction));
  const Tensor direction = long_key / maximum(sqrt(sum(long_key * long_key, {-1}, true)), 1e-12);
  const Tensor forgotten = direction * into_heads(rate);
  const Tensor key = into_heads(plain_key + plain_key * (rate - 1) * Tensor(layer.key_rate));
  const Tensor values = into_heads(value);

  if (!state[kMatrix].defined()) {
    const std::int64_t size = config_.hidden / config_.heads;
    state[kMatrix] = zeros({x.size(0), config_.heads, size, size}, {.device = x.device()});
  }
  std::vector<Tensor> outputs;
  for (std::int64_t t = 0; t < x.size(1); ++t) {
    const Tensor before = state[kMatrix];
    const Tensor known = matmul(direction.select(1, t).unsqueeze(-2), before);
    const Tensor added = key.select(1, t).unsqueeze(-1) * values.select(1, t).unsqueeze(-2);
    state[kMatrix] = before * decay.select(1, t).unsqueeze(-1) - forgotten.select(1, t).unsqueeze(-1) * known + added;
    outputs.push_back(matmul(receptance.select(1, t).unsqueeze(-2), state[kMatrix]).squeeze(-2));
  }
  const Tensor flat = stack(outputs, 1).flatten(-2, -1);
  const Tensor normal = group_norm(flat.flatten(0, 1), config_.heads, Tensor(layer.group_weight),
                                   Tensor(layer.group_bias), config_.group_eps)
                            .reshape(flat.shape());
  const Tensor now = sum(receptance * key * Tensor(layer.bonus), {-1}, true) * values;
  return layer.output((normal + now.flatten(-2, -1)) * gate);
}

Tensor Rwkv7::run(std::size_t index, const Tensor& x, State& state, Tensor& aside) const {
  const Layer& layer = layers_[index];
  state.resize(kRwkv7Places);
  const Tensor input = layer.before(x);
  const Tensor middle = input + attend(index, layer.first(input), state, aside);
  const Tensor normal = layer.second(middle);
  const Tensor change = shifted(normal, state[kFeedToken]) - normal;
  const Tensor wide = relu(layer.feed_key(normal + change * Tensor(layer.feed_mix)));
  return middle + layer.feed_value(wide * wide);
}

Tensor Rwkv7::logits(const Tensor& x) const {
  return head_(norm_(x));
}

std::unique_ptr<LanguageModel> create_rwkv7(const io::JsonFields& config) {
  Rwkv7Config result;
  result.vocabulary = config.integer("vocab_size", 1, kMaxSize);
  result.hidden = config.integer("hidden_size", 1, kMaxSize);
  result.layers = config.integer("num_hidden_layers", 1, 1024);
  const std::int64_t size = config.integer_or("head_dim", 64, 1, result.hidden);
  if (result.hidden % size != 0) config.fail("head_dim", "does not divide hidden_size");
  result.heads = result.hidden / size;
  const double ratio = config.real_or("hidden_ratio", 4);
  if (!(ratio > 0 && ratio < 1024)) config.fail("hidden_ratio", "is not positive");
  const auto usual = static_cast<std::int64_t>(static_cast<double>(result.hidden) * ratio);
  result.inner = config.integer_or("intermediate_size", (usual + 31) / 32 * 32, 1, kMaxSize);
  result.decay_rank = config.integer("decay_low_rank_dim", 1, kMaxSize);
  result.rate_rank = config.integer("a_low_rank_dim", 1, kMaxSize);
  result.gate_rank = config.integer("gate_low_rank_dim", 1, kMaxSize);
  result.value_rank = config.integer("v_low_rank_dim", 1, kMaxSize);
  result.eps = config.real_or("norm_eps", 1e-5);
  result.group_eps = static_cast<double>(size) * result.eps;
  result.norm_bias = config.flag_or("norm_bias", true);
  result.norm_first = config.flag_or("norm_first", true);
  if (config.text_or("hidden_act", "sqrelu") != "sqrelu") config.fail("hidden_act", "only sqrelu is supported");
  if (config.flag_or("tie_word_embeddings", false)) config.fail("tie_word_embeddings", "is not supported for rwkv7");
  if (config.has("attn")) config.fail("attn", "layers of attention are not supported for rwkv7");
  return std::make_unique<Rwkv7>(result);
}

void split_rwkv7_shares(io::TensorMap& tensors) {
  constexpr std::string_view kTogether = ".attn.x_x";
  io::TensorMap apart;
  for (auto& [name, tensor] : tensors) {
    if (!name.ends_with(kTogether) || tensor.rank() == 0 || tensor.size(0) != 6) continue;
    std::int64_t number = 0;
    for (const char letter : {'r', 'w', 'k', 'v', 'a', 'g'}) {
      apart.emplace(name.substr(0, name.size() - 1) + letter, tensor.select(0, number++).reshape({1, 1, -1}));
    }
  }
  if (apart.empty()) return;
  std::erase_if(tensors, [&](const auto& item) { return item.first.ends_with(kTogether); });
  tensors.merge(apart);
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
