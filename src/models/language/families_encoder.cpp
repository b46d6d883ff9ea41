// Families of encoders: every token sees all others, and the last hidden states are the result.
#include <array>
#include <cmath>

#include "models/language/families.h"

namespace lockstep {
inline namespace v0 {
namespace models {

using io::JsonFields;

namespace {

// What BERT's descendants share: norms of sums, biases, learned positions.
void make_bert(DecoderConfig& result) {
  result.norm.kind = NormKind::layer;
  result.norm.bias = true;
  result.attention.causal = false;
  result.attention.bias = result.attention.output_bias = true;
  result.feed.gated = false;
  result.feed.bias = true;
  result.encoder = true;
  result.norm_behind = true;
  result.position_count = result.context;
  result.rotary.clear();
  for (LayerConfig& layer : result.layers) layer.rotary = -1;
  use_bert_names(result.names);
}

}  // namespace

void use_bert_names(ModelNames& names) {
  names.embedding = "embeddings.word_embeddings";
  names.embedding_norm = "embeddings.LayerNorm";
  names.positions = "embeddings.position_embeddings";
  names.token_types = "embeddings.token_type_embeddings";
  names.layers = "encoder.layer";
  names.norm = "";
  LayerNames& layer = names.layer;
  layer.attention_norm = "attention.output.LayerNorm";
  layer.feed_norm = "output.LayerNorm";
  layer.query = "attention.self.query";
  layer.key = "attention.self.key";
  layer.value = "attention.self.value";
  layer.output = "attention.output.dense";
  layer.up = "intermediate.dense";
  layer.down = "output.dense";
}

void use_nomic_bert_names(ModelNames& names) {
  use_bert_names(names);
  names.positions = "";
  names.embedding_norm = "emb_ln";
  names.layers = "encoder.layers";
  names.layer.attention_norm = "norm1";
  names.layer.feed_norm = "norm2";
  names.layer.fused = "attn.Wqkv";
  names.layer.output = "attn.out_proj";
  names.layer.gate = "mlp.fc12";
  names.layer.up = "mlp.fc11";
  names.layer.down = "mlp.fc2";
}

DecoderConfig read_bert(const JsonFields& config) {
  require(config, "is_decoder", false, false);
  if (config.text_or("position_embedding_type", "absolute") != "absolute")
    config.fail("position_embedding_type", "only absolute is supported");
  DecoderConfig result = read_common(config, "layer_norm_eps", true);
  result.norm.eps = config.real_or("layer_norm_eps", 1e-12);
  make_bert(result);
  result.feed.activation = read_activation(config, "hidden_act", "gelu");
  result.token_types = config.integer_or("type_vocab_size", 2, 1, kMaxSize);
  return result;
}

// Positions start behind the number of the padding token.
DecoderConfig read_roberta(const JsonFields& config) {
  DecoderConfig result = read_bert(config);
  result.position_offset = config.integer_or("pad_token_id", 1, 0, result.position_count - 1) + 1;
  return result;
}

DecoderConfig read_distilbert(const JsonFields& config) {
  DecoderConfig result;
  result.family = "distilbert";
  result.vocabulary = config.integer("vocab_size", 1, kMaxSize);
  result.hidden = config.integer("dim", 1, kMaxSize);
  result.context = config.integer("max_position_embeddings", 1, kMaxSize);
  result.norm.eps = 1e-12;
  result.attention.heads = config.integer("n_heads", 1, 65'536);
  result.attention.kv_heads = result.attention.heads;
  result.attention.head_dim = result.hidden / result.attention.heads;
  result.attention.scale = 1 / std::sqrt(static_cast<double>(result.attention.head_dim));
  result.feed.size = config.integer("hidden_dim", 1, kMaxSize);
  result.layers.resize(static_cast<std::size_t>(config.integer("n_layers", 1, 1024)));
  make_bert(result);
  result.feed.activation = read_activation(config, "activation", "gelu");
  result.names.layers = "transformer.layer";
  LayerNames& names = result.names.layer;
  names.attention_norm = "sa_layer_norm";
  names.feed_norm = "output_layer_norm";
  names.query = "attention.q_lin";
  names.key = "attention.k_lin";
  names.value = "attention.v_lin";
  names.output = "attention.out_lin";
  names.up = "ffn.lin1";
  names.down = "ffn.lin2";
  return result;
}

// Norms in front; the first layer's attention has none, since the embedding's is there.
void use_modernbert_names(ModelNames& names) {
  names.embedding = "embeddings.tok_embeddings";
  names.embedding_norm = "embeddings.norm";
  names.layers = "layers";
  names.norm = "final_norm";
  names.layer.attention_norm = "attn_norm";
  names.layer.feed_norm = "mlp_norm";
  names.layer.fused = "attn.Wqkv";
  names.layer.output = "attn.Wo";
  names.layer.up = "mlp.Wi";
  names.layer.down = "mlp.Wo";
}

DecoderConfig read_modernbert(const JsonFields& config) {
  DecoderConfig result = read_common(config, "norm_eps", true);
  result.norm = {
      .kind = NormKind::layer, .bias = config.flag_or("norm_bias", false), .eps = config.real_or("norm_eps", 1e-5)};
  result.attention.causal = false;
  result.attention.bias = config.flag_or("attention_bias", false);
  result.attention.output_bias = result.attention.bias;
  result.attention.fusion = Fusion::concatenated;
  result.feed.fused = true;
  result.feed.bias = config.flag_or("mlp_bias", false);
  result.feed.activation = read_activation(config, "hidden_activation", "gelu");
  result.encoder = true;
  // A token sees half of local_attention on either side, and itself.
  const std::int64_t window = config.integer_or("local_attention", 128, 1, INT32_MAX) / 2 + 1;
  const std::int64_t every = config.integer_or("global_attn_every_n_layers", 3, 1, 1024);
  const bool listed = config.has("layer_types");
  const std::vector<std::string> types = listed ? config.texts("layer_types") : std::vector<std::string>();
  if (listed && types.size() != result.layers.size())
    config.fail("layer_types", "does not have an entry for each layer");
  for (std::size_t i = 0; i < result.layers.size(); ++i) {
    const bool full = listed ? types[i] == "full_attention" : static_cast<std::int64_t>(i) % every == 0;
    result.layers[i].window = full ? 0 : window;
  }
  if (!result.rotary.empty()) result.rotary.front().base = config.real_or("global_rope_theta", 160000);
  read_two_rotaries(config, result, 160000, config.real_or("local_rope_theta", 10000));
  result.layers.front().first_norm = false;
  use_modernbert_names(result.names);
  return result;
}

namespace {

// Nomic's own program has the words of GPT-2.
struct Word {
  const char* own;
  const char* usual;
};
constexpr std::array kWords = {Word{"n_embd", "hidden_size"},
                               Word{"n_head", "num_attention_heads"},
                               Word{"n_inner", "intermediate_size"},
                               Word{"n_layer", "num_hidden_layers"},
                               Word{"n_positions", "max_position_embeddings"},
                               Word{"layer_norm_epsilon", "layer_norm_eps"},
                               Word{"rotary_emb_fraction", "partial_rotary_factor"}};
// What would be another model.
constexpr std::array kUnlike = {
    "causal",       "prenorm",      "use_rms_norm", "parallel_block",        "rotary_emb_interleaved", "qkv_proj_bias",
    "mlp_fc1_bias", "mlp_fc2_bias", "num_experts",  "rotary_scaling_factor", "rotary_emb_scale_base"};

nlohmann::json in_usual_words(const JsonFields& config) {
  for (const char* key : kUnlike) {
    if (config.has(key) && !(config.at(key).is_boolean() && !config.flag_or(key, true)))
      config.fail(key, "is not supported");
  }
  nlohmann::json result = config.at_object();
  for (const Word& word : kWords) {
    if (config.has(word.own)) result[word.usual] = config.at(word.own);
  }
  result.erase(kWords.front().own);
  return result;
}

}  // namespace

DecoderConfig read_nomic_bert(const JsonFields& config) {
  if (config.has(kWords.front().own)) {
    const nlohmann::json usual = in_usual_words(config);
    return read_nomic_bert(JsonFields(usual, config.where()));
  }
  DecoderConfig result = read_common(config, "layer_norm_eps", true);
  const std::vector<RotaryConfig> rotary = result.rotary;
  result.norm.eps = config.real_or("layer_norm_eps", 1e-12);
  make_bert(result);
  result.rotary = rotary;
  for (LayerConfig& layer : result.layers) layer.rotary = 0;
  result.position_count = 0;
  result.attention.bias = result.attention.output_bias = false;
  result.attention.fusion = Fusion::concatenated;
  result.feed.gated = true;
  result.feed.bias = false;
  result.feed.activation = read_activation(config, "hidden_act", "silu");
  if (config.text_or("activation_function", "swiglu") != "swiglu")
    config.fail("activation_function", "only swiglu is supported");
  result.token_types = config.integer_or("type_vocab_size", 2, 1, kMaxSize);
  use_nomic_bert_names(result.names);
  return result;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
