// Families of decoders that differ from Llama in more than a flag.
#include <cmath>

#include "kernels/scalar.h"
#include "models/language/families.h"

namespace lockstep {
inline namespace v0 {
namespace models {

using io::JsonFields;

namespace {

NormConfig layer_norm_of(double eps, bool bias = true) {
  return {.kind = NormKind::layer, .bias = bias, .eps = eps};
}

// Of layers that are not listed, all but every fourth have a window.
void read_windows_of_most(const JsonFields& config, DecoderConfig& result) {
  if (read_layer_types(config, result)) return;
  const std::int64_t window = config.integer("sliding_window", 1, INT32_MAX);
  const auto every = static_cast<std::size_t>(config.integer_or("sliding_window_pattern", 4, 1, 1024));
  for (std::size_t i = 0; i < result.layers.size(); ++i) result.layers[i].window = (i + 1) % every == 0 ? 0 : window;
}

DecoderConfig read_deepseek(const JsonFields& config) {
  DecoderConfig result = read_common(config, "rms_norm_eps", false);
  LatentConfig& latent = result.attention.latent;
  latent.rank = config.integer("kv_lora_rank", 1, kMaxSize);
  latent.query_rank = config.integer_or("q_lora_rank", 0, 1, kMaxSize);
  latent.rotated = config.integer("qk_rope_head_dim", 2, 65'536);
  latent.plain = config.integer("qk_nope_head_dim", 1, 65'536);
  latent.value = config.integer("v_head_dim", 1, 65'536);
  result.attention.kv_heads = result.attention.heads;
  result.attention.bias = config.flag_or("attention_bias", false);
  result.attention.output_bias = result.attention.bias;
  result.attention.scale = 1 / std::sqrt(static_cast<double>(latent.plain + latent.rotated));
  result.rotary = {read_rotary(config, latent.rotated)};
  RotaryConfig& rotary = result.rotary.front();
  rotary.interleaved = config.flag_or("rope_interleave", true);
  const char* parameters = config.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (rotary.scaling != RotaryConfig::Scaling::none && rotary.factor > 1) {
    const double all = config.object(parameters).real_or("mscale_all_dim", 0);
    const double strength = all == 0 ? 1 : 0.1 * all * scalar::ls_log(rotary.factor) + 1;
    result.attention.scale *= strength * strength;
  }
  ExpertsConfig& experts = result.experts;
  experts.count = config.integer(config.has("n_routed_experts") ? "n_routed_experts" : "num_local_experts", 1, 4096);
  experts.used = config.integer("num_experts_per_tok", 1, experts.count);
  experts.size = config.integer("moe_intermediate_size", 1, kMaxSize);
  experts.scale = config.real_or("routed_scaling_factor", 1);
  experts.shared = experts.size * config.integer_or("n_shared_experts", 0, 0, 64);
  const std::int64_t dense = config.integer_or("first_k_dense_replace", 0, 0, INT32_MAX);
  for (std::size_t i = 0; i < result.layers.size(); ++i) {
    result.layers[i].experts = static_cast<std::int64_t>(i) >= dense;
  }
  return result;
}

}  // namespace

std::string_view wrong_groups(const ExpertsConfig& experts) {
  const std::int64_t in_group = experts.count / experts.groups;
  if (experts.count % experts.groups != 0 || (experts.groups > 1 && in_group < 2)) {
    return "does not divide the experts into groups of at least two";
  }
  return experts.used > in_group * experts.used_groups ? "the chosen groups have fewer experts than are used" : "";
}

void use_falcon_names(ModelNames& names) {
  names.embedding = "transformer.word_embeddings";
  names.layers = "transformer.h";
  names.norm = "transformer.ln_f";
  LayerNames& layer = names.layer;
  layer.feed_norm = "";
  layer.fused = "self_attention.query_key_value";
  layer.output = "self_attention.dense";
  layer.up = "mlp.dense_h_to_4h";
  layer.down = "mlp.dense_4h_to_h";
}

void use_gpt_neox_names(ModelNames& names) {
  names.embedding = "gpt_neox.embed_in";
  names.layers = "gpt_neox.layers";
  names.norm = "gpt_neox.final_layer_norm";
  names.head = "embed_out";
  LayerNames& layer = names.layer;
  layer.fused = "attention.query_key_value";
  layer.output = "attention.dense";
  layer.up = "mlp.dense_h_to_4h";
  layer.down = "mlp.dense_4h_to_h";
}

void use_lfm2_names(ModelNames& names) {
  names.norm = "model.embedding_norm";
  LayerNames& layer = names.layer;
  layer.attention_norm = "operator_norm";
  layer.feed_norm = "ffn_norm";
  layer.query_norm = "self_attn.q_layernorm";
  layer.key_norm = "self_attn.k_layernorm";
  layer.output = "self_attn.out_proj";
  layer.gate = "feed_forward.w1";
  layer.up = "feed_forward.w3";
  layer.down = "feed_forward.w2";
}

void use_phi_names(ModelNames& names) {
  names.norm = "model.final_layernorm";
  LayerNames& layer = names.layer;
  layer.feed_norm = "";
  layer.output = "self_attn.dense";
  layer.up = "mlp.fc1";
  layer.down = "mlp.fc2";
}

DecoderConfig read_cohere(const JsonFields& config) {
  require(config, "use_qk_norm", false, false);
  DecoderConfig result = read_common(config, "layer_norm_eps", true);
  result.norm = layer_norm_of(config.real_or("layer_norm_eps", 1e-5), false);
  result.attention.bias = config.flag_or("attention_bias", false);
  result.attention.output_bias = result.attention.bias;
  result.rotary.at(0).interleaved = true;
  result.parallel = true;
  result.names.layer.feed_norm = "";
  result.logit_scale = config.real_or("logit_scale", 0.0625);
  return result;
}

// Layers that see everything go without positions.
DecoderConfig read_cohere2(const JsonFields& config) {
  DecoderConfig result = read_cohere(config);
  read_windows_of_most(config, result);
  for (LayerConfig& layer : result.layers) layer.rotary = layer.window > 0 ? 0 : -1;
  return result;
}

DecoderConfig read_deepseek_v2(const JsonFields& config) {
  DecoderConfig result = read_deepseek(config);
  if (config.text_or("topk_method", "greedy") != "greedy") config.fail("topk_method", "only greedy is supported");
  result.rotary.at(0).interleaved = true;
  return result;
}

DecoderConfig read_deepseek_v3(const JsonFields& config) {
  DecoderConfig result = read_deepseek(config);
  ExpertsConfig& experts = result.experts;
  experts.gate = ExpertsConfig::Gate::sigmoid;
  experts.normalize = config.flag_or("norm_topk_prob", true);
  experts.groups = config.integer_or("n_group", 1, 1, experts.count);
  experts.used_groups = config.integer_or("topk_group", 1, 1, experts.groups);
  if (const std::string_view wrong = wrong_groups(experts); !wrong.empty()) config.fail("n_group", wrong);
  return result;
}

DecoderConfig read_falcon(const JsonFields& config) {
  require(config, "alibi", false, false);
  require(config, "parallel_attn", true, true);
  require(config, "new_decoder_architecture", false, false);
  DecoderConfig result;
  result.family = "falcon";
  result.vocabulary = config.integer("vocab_size", 1, kMaxSize);
  result.hidden = config.integer("hidden_size", 1, kMaxSize);
  result.context = config.integer_or("max_position_embeddings", 2048, 1, INT64_MAX);
  result.norm = layer_norm_of(config.real_or("layer_norm_epsilon", 1e-5));
  AttentionConfig& attention = result.attention;
  attention.heads = config.integer("num_attention_heads", 1, 65'536);
  attention.head_dim = result.hidden / attention.heads;
  attention.scale = 1 / std::sqrt(static_cast<double>(attention.head_dim));
  const bool one_key = config.flag_or("multi_query", true);
  attention.kv_heads = one_key ? 1 : attention.heads;
  attention.fusion = Fusion::grouped;
  attention.bias = config.flag_or("bias", false);
  attention.output_bias = attention.bias;
  result.feed = {.size = config.integer_or("ffn_hidden_size", 4 * result.hidden, 1, kMaxSize),
                 .gated = false,
                 .bias = attention.bias,
                 .activation = read_activation(config, "activation", "gelu")};
  result.layers.resize(static_cast<std::size_t>(config.integer("num_hidden_layers", 1, 1024)));
  result.rotary = {read_rotary(config, attention.head_dim)};
  result.parallel = true;
  result.tied = config.flag_or("tie_word_embeddings", true);
  use_falcon_names(result.names);
  return result;
}

DecoderConfig read_gpt2(const JsonFields& config) {
  require(config, "scale_attn_weights", true, true);
  require(config, "scale_attn_by_inverse_layer_idx", false, false);
  require(config, "add_cross_attention", false, false);
  DecoderConfig result;
  result.family = "gpt2";
  result.vocabulary = config.integer("vocab_size", 1, kMaxSize);
  result.hidden = config.integer("n_embd", 1, kMaxSize);
  result.context = config.integer("n_positions", 1, kMaxSize);
  result.position_count = result.context;
  result.norm = layer_norm_of(config.real_or("layer_norm_epsilon", 1e-5));
  AttentionConfig& attention = result.attention;
  attention.heads = config.integer("n_head", 1, 65'536);
  attention.kv_heads = attention.heads;
  attention.head_dim = result.hidden / attention.heads;
  attention.scale = 1 / std::sqrt(static_cast<double>(attention.head_dim));
  attention.fusion = Fusion::concatenated;
  attention.bias = attention.output_bias = true;
  result.feed = {.size = config.integer_or("n_inner", 4 * result.hidden, 1, kMaxSize),
                 .gated = false,
                 .bias = true,
                 .activation = read_activation(config, "activation_function", "gelu_new")};
  result.layers.resize(static_cast<std::size_t>(config.integer("n_layer", 1, 1024)));
  for (LayerConfig& layer : result.layers) layer.rotary = -1;
  result.transposed = true;
  result.tied = config.flag_or("tie_word_embeddings", true);
  result.names.embedding = "transformer.wte";
  result.names.positions = "transformer.wpe";
  result.names.layers = "transformer.h";
  result.names.norm = "transformer.ln_f";
  LayerNames& names = result.names.layer;
  names.attention_norm = "ln_1";
  names.feed_norm = "ln_2";
  names.fused = "attn.c_attn";
  names.output = "attn.c_proj";
  names.up = "mlp.c_fc";
  names.down = "mlp.c_proj";
  return result;
}

DecoderConfig read_gpt_neox(const JsonFields& config) {
  DecoderConfig result = read_common(config, "layer_norm_eps", false);
  result.norm = layer_norm_of(config.real_or("layer_norm_eps", 1e-5));
  result.attention.fusion = Fusion::grouped;
  result.attention.bias = config.flag_or("attention_bias", true);
  result.attention.output_bias = result.attention.bias;
  result.feed.gated = false;
  result.feed.bias = true;
  result.feed.activation = read_activation(config, "hidden_act", "gelu");
  result.parallel = config.flag_or("use_parallel_residual", true);
  use_gpt_neox_names(result.names);
  return result;
}

DecoderConfig read_gpt_oss(const JsonFields& config) {
  DecoderConfig result = read_common(config, "rms_norm_eps", false);
  result.attention.bias = config.flag_or("attention_bias", true);
  result.attention.output_bias = result.attention.bias;
  result.attention.sinks = true;
  read_experts(config, result, result.feed.size);
  result.experts.normalize = false;
  result.experts.gate = ExpertsConfig::Gate::softmax_of_top;
  result.experts.router_bias = true;
  result.experts.stacked = true;
  result.feed.clamped = true;
  result.feed.limit = config.real_or("swiglu_limit", 7);
  result.feed.alpha = config.real_or("swiglu_alpha", 1.702);
  if (!read_layer_types(config, result)) {
    const std::int64_t window = config.integer("sliding_window", 1, INT32_MAX);
    for (std::size_t i = 0; i < result.layers.size(); i += 2) result.layers[i].window = window;
  }
  result.names.layer.router = "mlp.router";
  return result;
}

// The size of feed-forward layers is two thirds of what the config says, rounded up.
DecoderConfig read_lfm2(const JsonFields& config) {
  DecoderConfig result = read_common(config, "norm_eps", true);
  result.convolution = {.kernel = config.integer_or("conv_L_cache", 3, 2, 1024),
                        .bias = config.flag_or("conv_bias", false)};
  if (!read_layer_types(config, result) && config.has("full_attn_idxs")) {
    for (LayerConfig& layer : result.layers) layer.mixer = Mixer::convolution;
    for (const auto& number : config.array("full_attn_idxs")) {
      const auto index = number.is_number_unsigned() ? number.get<std::uint64_t>() : result.layers.size();
      if (index >= result.layers.size()) config.fail("full_attn_idxs", "names no layer");
      result.layers[index].mixer = Mixer::attention;
    }
  }
  result.attention.head_norm = true;
  if (config.flag_or("block_auto_adjust_ff_dim", true)) {
    const std::int64_t multiple = config.integer_or("block_multiple_of", 256, 1, kMaxSize);
    const double factor = config.real_or("block_ffn_dim_multiplier", 1);
    if (!(factor > 0 && factor < 1024)) config.fail("block_ffn_dim_multiplier", "is not positive");
    const auto size = static_cast<std::int64_t>(factor * static_cast<double>(2 * result.feed.size / 3));
    result.feed.size = (size + multiple - 1) / multiple * multiple;
  }
  use_lfm2_names(result.names);
  return result;
}

DecoderConfig read_olmo(const JsonFields& config) {
  if (config.has("clip_qkv")) config.fail("clip_qkv", "is not supported for olmo");
  DecoderConfig result = read_common(config, "rms_norm_eps", false);
  result.norm = {.kind = NormKind::layer, .weight = false, .eps = 1e-5};
  result.attention.bias = config.flag_or("attention_bias", false);
  result.attention.output_bias = result.attention.bias;
  return result;
}

namespace {

DecoderConfig read_full_norm(const JsonFields& config) {
  DecoderConfig result = read_common(config, "rms_norm_eps", false);
  result.attention.bias = config.flag_or("attention_bias", false);
  result.attention.output_bias = result.attention.bias;
  result.attention.full_norm = true;
  return result;
}

}  // namespace

DecoderConfig read_olmo2(const JsonFields& config) {
  DecoderConfig result = read_full_norm(config);
  LayerNames& names = result.names.layer;
  names.attention_norm = "";
  names.attention_after = "post_attention_layernorm";
  names.feed_norm = "";
  names.feed_after = "post_feedforward_layernorm";
  return result;
}

// Rotary embeddings are stretched where layers see everything.
DecoderConfig read_olmo3(const JsonFields& config) {
  DecoderConfig result = read_olmo2(config);
  read_windows_of_most(config, result);
  const double base = config.real("rope_theta");
  read_two_rotaries(config, result, base, base);
  return result;
}

DecoderConfig read_olmoe(const JsonFields& config) {
  if (config.has("clip_qkv")) config.fail("clip_qkv", "is not supported for olmoe");
  DecoderConfig result = read_full_norm(config);
  read_experts(config, result, result.feed.size);
  return result;
}

DecoderConfig read_phi(const JsonFields& config) {
  require(config, "qk_layernorm", false, false);
  DecoderConfig result = read_common(config, "layer_norm_eps", false);
  result.norm = layer_norm_of(config.real_or("layer_norm_eps", 1e-5));
  result.attention.bias = result.attention.output_bias = true;
  result.feed.gated = false;
  result.feed.bias = true;
  result.feed.activation = read_activation(config, "hidden_act", "gelu_new");
  result.parallel = true;
  result.head_bias = true;
  use_phi_names(result.names);
  return result;
}

DecoderConfig read_phi3(const JsonFields& config) {
  DecoderConfig result = read_common(config, "rms_norm_eps", false);
  result.attention.fusion = Fusion::concatenated;
  result.feed.fused = true;
  const std::int64_t window = config.integer_or("sliding_window", 0, 1, INT32_MAX);
  for (LayerConfig& layer : result.layers) layer.window = window;
  result.names.layer.fused = "self_attn.qkv_proj";
  result.names.layer.up = "mlp.gate_up_proj";
  return result;
}

DecoderConfig read_stablelm(const JsonFields& config) {
  require(config, "qk_layernorm", false, false);
  DecoderConfig result = read_common(config, "layer_norm_eps", false);
  result.norm = layer_norm_of(config.real_or("layer_norm_eps", 1e-5));
  result.attention.bias = config.flag_or("use_qkv_bias", false);
  result.parallel = config.flag_or("use_parallel_residual", false);
  if (result.parallel) result.names.layer.feed_norm = "";
  return result;
}

DecoderConfig read_starcoder2(const JsonFields& config) {
  DecoderConfig result = read_common(config, "norm_epsilon", true);
  result.norm = layer_norm_of(config.real_or("norm_epsilon", 1e-5));
  const bool bias = config.flag_or("use_bias", true);
  result.attention.bias = result.attention.output_bias = bias;
  result.feed.gated = false;
  result.feed.bias = bias;
  result.feed.activation = read_activation(config, "hidden_act", "gelu_pytorch_tanh");
  const std::int64_t window = config.integer_or("sliding_window", 0, 1, INT32_MAX);
  for (LayerConfig& layer : result.layers) layer.window = window;
  result.names.layer.up = "mlp.c_fc";
  result.names.layer.down = "mlp.c_proj";
  return result;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
