#include "models/language/families.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {
namespace models {

using io::JsonFields;

namespace {

constexpr std::int64_t kMaxLayers = 1024;
constexpr std::int64_t kMaxHeads = 65'536;

DecoderConfig read_llama(const JsonFields& config) {
  DecoderConfig result = read_common(config, "rms_norm_eps", false);
  result.attention.bias = config.flag_or("attention_bias", false);
  result.attention.output_bias = result.attention.bias;
  result.feed.bias = config.flag_or("mlp_bias", false);
  return result;
}

DecoderConfig read_mistral(const JsonFields& config) {
  DecoderConfig result = read_llama(config);
  const std::int64_t window = config.integer_or("sliding_window", 0, 1, INT32_MAX);
  for (LayerConfig& layer : result.layers) layer.window = window;
  read_layer_types(config, result);
  return result;
}

DecoderConfig read_mixtral(const JsonFields& config) {
  DecoderConfig result = read_mistral(config);
  read_experts(config, result, result.feed.size);
  result.experts.normalize = true;
  LayerNames& names = result.names.layer;
  names.router = "block_sparse_moe.gate";
  names.experts = "block_sparse_moe.experts";
  names.expert_gate = "w1";
  names.expert_up = "w3";
  names.expert_down = "w2";
  return result;
}

// Windows are asked for by use_sliding_window, for layers from max_window_layers on.
void read_qwen_windows(const JsonFields& config, DecoderConfig& result) {
  if (!config.flag_or("use_sliding_window", false)) return;
  if (read_layer_types(config, result)) return;
  const std::int64_t window = config.integer("sliding_window", 1, INT32_MAX);
  const std::int64_t first = config.integer_or("max_window_layers", 28, 0, INT32_MAX);
  for (std::size_t i = 0; i < result.layers.size(); ++i) {
    if (static_cast<std::int64_t>(i) >= first) result.layers[i].window = window;
  }
}

DecoderConfig read_qwen2(const JsonFields& config) {
  DecoderConfig result = read_common(config, "rms_norm_eps", false);
  result.attention.bias = true;
  read_qwen_windows(config, result);
  return result;
}

DecoderConfig read_qwen3(const JsonFields& config) {
  DecoderConfig result = read_llama(config);
  result.attention.head_norm = true;
  read_qwen_windows(config, result);
  return result;
}

DecoderConfig read_qwen3_moe(const JsonFields& config) {
  DecoderConfig result = read_qwen3(config);
  read_experts(config, result, config.integer("moe_intermediate_size", 1, kMaxSize));
  const std::int64_t step = config.integer_or("decoder_sparse_step", 1, 1, kMaxLayers);
  for (std::size_t i = 0; i < result.layers.size(); ++i) {
    result.layers[i].experts = (static_cast<std::int64_t>(i) + 1) % step == 0;
  }
  if (config.has("mlp_only_layers")) {
    for (const auto& layer : config.array("mlp_only_layers")) {
      const auto index = layer.is_number_unsigned() ? layer.get<std::uint64_t>() : result.layers.size();
      if (index >= result.layers.size()) config.fail("mlp_only_layers", "names no layer");
      result.layers[index].experts = false;
    }
  }
  return result;
}

void use_gated_shared_expert(const JsonFields& config, DecoderConfig& result) {
  result.experts.shared = config.integer("shared_expert_intermediate_size", 1, kMaxSize);
  result.experts.shared_gate = true;
  result.names.layer.shared = "mlp.shared_expert";
}

DecoderConfig read_qwen2_moe(const JsonFields& config) {
  require(config, "qkv_bias", true, true);
  DecoderConfig result = read_qwen3_moe(config);
  result.attention.head_norm = false;
  result.attention.bias = true;
  result.attention.output_bias = false;
  use_gated_shared_expert(config, result);
  return result;
}

DecoderConfig read_gemma(const JsonFields& config) {
  DecoderConfig result = read_common(config, "rms_norm_eps", true);
  if (result.family != "gemma3_text") require(config, "use_bidirectional_attention", false, false);
  result.norm.one_more = true;
  result.attention.bias = config.flag_or("attention_bias", false);
  result.attention.output_bias = result.attention.bias;
  const char* key = config.has("hidden_activation") ? "hidden_activation" : "hidden_act";
  result.feed.activation = read_activation(config, key, "gelu_pytorch_tanh");
  // Gemma's first files say "gelu" and mean the tanh form.
  if (result.feed.activation == Activation::gelu) result.feed.activation = Activation::gelu_tanh;
  result.embedding_scale = static_cast<double>(static_cast<float>(std::sqrt(static_cast<double>(result.hidden))));
  return result;
}

DecoderConfig read_gemma2(const JsonFields& config) {
  DecoderConfig result = read_gemma(config);
  LayerNames& names = result.names.layer;
  names.attention_after = "post_attention_layernorm";
  names.feed_norm = "pre_feedforward_layernorm";
  names.feed_after = "post_feedforward_layernorm";
  result.attention.scale = 1 / std::sqrt(config.real("query_pre_attn_scalar"));
  result.attention.softcap = config.real_or("attn_logit_softcapping", 0);
  result.logit_softcap = config.real_or("final_logit_softcapping", 0);
  if (!read_layer_types(config, result)) {
    const std::int64_t window = config.integer_or("sliding_window", 4096, 1, INT32_MAX);
    for (std::size_t i = 0; i < result.layers.size(); i += 2) result.layers[i].window = window;
  }
  return result;
}

DecoderConfig read_gemma3(const JsonFields& config) {
  DecoderConfig result = read_gemma2(config);
  result.attention.head_norm = true;
  if (!config.has("layer_types")) {
    const std::int64_t pattern = config.integer_or("sliding_window_pattern", 6, 1, kMaxLayers);
    const std::int64_t window = config.integer("sliding_window", 1, INT32_MAX);
    for (std::size_t i = 0; i < result.layers.size(); ++i) {
      result.layers[i].window = (static_cast<std::int64_t>(i) + 1) % pattern == 0 ? 0 : window;
    }
  }
  read_two_rotaries(config, result, 1e6, config.real_or("rope_local_base_freq", 1e4));
  if (config.flag_or("use_bidirectional_attention", false)) {  // EmbeddingGemma; its windows are of both sides together
    result.attention.causal = false;
    result.encoder = true;
    for (LayerConfig& layer : result.layers) layer.window = layer.window > 0 ? layer.window / 2 + 1 : 0;
  }
  return result;
}

DecoderConfig read_qwen3_next(const JsonFields& config) {
  DecoderConfig result = read_qwen3_moe(config);
  result.norm.one_more = true;
  result.attention.gated = true;
  use_gated_shared_expert(config, result);
  DeltaConfig& delta = result.delta;
  delta.key_heads = config.integer("linear_num_key_heads", 1, kMaxHeads);
  delta.key_size = config.integer("linear_key_head_dim", 1, kMaxHeads);
  delta.value_heads = config.integer("linear_num_value_heads", 1, kMaxHeads);
  delta.value_size = config.integer("linear_value_head_dim", 1, kMaxHeads);
  delta.kernel = config.integer_or("linear_conv_kernel_dim", 4, 2, 1024);
  delta.eps = result.norm.eps;
  if (delta.value_heads % delta.key_heads != 0) {
    config.fail("linear_num_key_heads", "does not divide linear_num_value_heads");
  }
  if (!read_layer_types(config, result)) {
    const std::int64_t every = config.integer_or("full_attention_interval", 4, 1, kMaxLayers);
    for (std::size_t i = 0; i < result.layers.size(); ++i) {
      if ((static_cast<std::int64_t>(i) + 1) % every != 0) result.layers[i].mixer = Mixer::delta;
    }
  }
  return result;
}

DecoderConfig read_glm(const JsonFields& config) {
  DecoderConfig result = read_common(config, "rms_norm_eps", false);
  result.attention.bias = config.flag_or("attention_bias", false);
  result.rotary.at(0).interleaved = true;
  result.feed.fused = true;
  result.names.layer.up = "mlp.gate_up_proj";
  return result;
}

DecoderConfig read_glm4(const JsonFields& config) {
  DecoderConfig result = read_glm(config);
  use_glm4_names(result.names);
  return result;
}

DecoderConfig read_granite(const JsonFields& config) {
  DecoderConfig result = read_llama(config);
  result.attention.scale = config.real_or("attention_multiplier", 1);
  result.embedding_scale = config.real_or("embedding_multiplier", 1);
  result.residual_scale = config.real_or("residual_multiplier", 1);
  const double scaling = config.real_or("logits_scaling", 1);
  if (!(scaling > 0)) config.fail("logits_scaling", "is not positive");
  result.logit_scale = 1 / scaling;
  return result;
}

DecoderConfig read_smollm3(const JsonFields& config) {
  DecoderConfig result = read_llama(config);
  result.tied = config.flag_or("tie_word_embeddings", true);
  read_qwen_windows(config, result);
  if (!config.has("no_rope_layers")) {
    const auto every = static_cast<std::size_t>(config.integer_or("no_rope_layer_interval", 4, 1, kMaxLayers));
    for (std::size_t i = every - 1; i < result.layers.size(); i += every) result.layers[i].rotary = -1;
    return result;
  }
  const auto& uses = config.array("no_rope_layers");
  if (uses.size() != result.layers.size()) config.fail("no_rope_layers", "does not have a number for each layer");
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (!uses[i].is_number_integer()) config.fail("no_rope_layers", "holds something else than numbers");
    if (uses[i].get<std::int64_t>() == 0) result.layers[i].rotary = -1;
  }
  return result;
}

constexpr std::array kFamilies = {
    Family{"bert", read_bert},
    Family{"camembert", read_roberta},
    Family{"cohere", read_cohere},
    Family{"cohere2", read_cohere2},
    Family{"deepseek_v2", read_deepseek_v2},
    Family{"deepseek_v3", read_deepseek_v3},
    Family{"distilbert", read_distilbert},
    Family{"falcon", read_falcon},
    Family{"gemma", read_gemma},
    Family{"gemma2", read_gemma2},
    Family{"gemma3_text", read_gemma3},
    Family{"glm", read_glm},
    Family{"glm4", read_glm4},
    Family{"gpt2", read_gpt2},
    Family{"gpt_neox", read_gpt_neox},
    Family{"gpt_oss", read_gpt_oss},
    Family{"granite", read_granite},
    Family{"lfm2", read_lfm2},
    Family{"llama", read_llama},
    Family{"mistral", read_mistral},
    Family{"mixtral", read_mixtral},
    Family{"modernbert", read_modernbert},
    Family{"nomic_bert", read_nomic_bert},
    Family{"olmo", read_olmo},
    Family{"olmo2", read_olmo2},
    Family{"olmo3", read_olmo3},
    Family{"olmoe", read_olmoe},
    Family{"phi", read_phi},
    Family{"phi3", read_phi3},
    Family{"qwen2", read_qwen2},
    Family{"qwen2_moe", read_qwen2_moe},
    Family{"qwen3", read_qwen3},
    Family{"qwen3_moe", read_qwen3_moe},
    Family{"qwen3_next", read_qwen3_next},
    Family{"roberta", read_roberta},
    Family{"smollm3", read_smollm3},
    Family{"stablelm", read_stablelm},
    Family{"starcoder2", read_starcoder2},
    Family{"xlm-roberta", read_roberta},
};

}  // namespace

std::span<const Family> families() {
  return kFamilies;
}

void read_two_rotaries(const JsonFields& config, DecoderConfig& result, double base, double base_of_windows) {
  const std::int64_t dims = result.attention.head_dim;
  if (config.has("rope_parameters")) {
    const JsonFields kinds = config.object("rope_parameters");
    result.rotary = {read_rotary_of(kinds.object("full_attention"), config, dims, base, 1),
                     read_rotary_of(kinds.object("sliding_attention"), config, dims, base_of_windows, 1)};
  } else {
    result.rotary.push_back({.dims = dims, .base = base_of_windows});
  }
  for (LayerConfig& layer : result.layers) layer.rotary = layer.window > 0 ? 1 : 0;
}

void use_glm4_names(ModelNames& names) {
  LayerNames& layer = names.layer;
  layer.attention_after = "post_self_attn_layernorm";
  layer.feed_after = "post_mlp_layernorm";
  layer.up = "mlp.gate_up_proj";
}

void read_experts(const JsonFields& config, DecoderConfig& result, std::int64_t size) {
  const char* count = config.has("num_experts") ? "num_experts" : "num_local_experts";
  ExpertsConfig& experts = result.experts;
  experts.count = config.integer(count, 1, 4096);
  experts.used = config.integer("num_experts_per_tok", 1, experts.count);
  experts.size = size;
  experts.normalize = config.flag_or("norm_topk_prob", false);
  for (LayerConfig& layer : result.layers) layer.experts = true;
}

void require(const JsonFields& config, const char* key, bool value, bool fallback) {
  if (config.flag_or(key, fallback) != value) {
    config.fail(key, fmt::format("{} is not supported for {}", !value, config.text("model_type")));
  }
}

Activation read_activation(const JsonFields& config, const char* key, const char* fallback) {
  const std::string name = config.text_or(key, fallback);
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return Activation::gelu_tanh;
  if (name == "relu") return Activation::relu;
  if (name == "tanh") return Activation::tanh;
  config.fail(key, fmt::format("the activation {} is not supported", in_quotes(name)));
}

namespace {

// "LongRoPE", Ding et al., 2024: frequencies of each pair are divided by a factor for short texts, or one for long
// ones.
void read_longrope(const JsonFields& parameters, const JsonFields& config, RotaryConfig& result) {
  result.scaling = RotaryConfig::Scaling::longrope;
  const std::int64_t context = config.integer("max_position_embeddings", 1, INT64_MAX);
  const char* key = "original_max_position_embeddings";
  const JsonFields& holder = parameters.has(key) ? parameters : config;
  const std::int64_t original = holder.integer(key, 2, INT64_MAX);
  result.original_length = static_cast<double>(original);
  const auto factors = [&](const char* of) {
    std::vector<float> list;
    for (const auto& entry : parameters.array(of)) {
      const double value = entry.is_number() ? entry.get<double>() : 0;
      if (!(value > 0) || !std::isfinite(static_cast<float>(value)))
        parameters.fail(of, "holds what is no positive number");
      list.push_back(static_cast<float>(value));
    }
    if (static_cast<std::int64_t>(list.size()) != result.dims / 2) {
      parameters.fail(of, fmt::format("has {} factors, not {}", list.size(), result.dims / 2));
    }
    return list;
  };
  result.factors = factors("short_factor");
  result.long_factors = factors("long_factor");
  const double factor = parameters.real_or("factor", static_cast<double>(context) / result.original_length);
  const double usual = factor <= 1 ? 1 : std::sqrt(1 + scalar::ls_log(factor) / scalar::ls_log(result.original_length));
  result.amplitude = parameters.real_or("attention_factor", usual);
}

}  // namespace

RotaryConfig read_rotary_of(const JsonFields& parameters, const JsonFields& config, std::int64_t head_dim, double base,
                            double share) {
  RotaryConfig result;
  result.base = parameters.real_or("rope_theta", base);
  if (!(result.base > 0)) parameters.fail("rope_theta", "is not positive");
  share = parameters.real_or("partial_rotary_factor", share);
  if (!(share > 0 && share <= 1)) parameters.fail("partial_rotary_factor", "is not in (0, 1]");
  result.dims = static_cast<std::int64_t>(static_cast<double>(head_dim) * share);
  if (result.dims % 2 != 0 || result.dims == 0)
    parameters.fail("partial_rotary_factor", "rotates an odd number of elements");
  const std::string kind = parameters.text_or("rope_type", parameters.text_or("type", "default"));
  // Of text alone, all of mrope's positions are those of its tokens (Qwen's models of pictures).
  if (kind == "default" || kind == "mrope") return result;
  const auto positive = [&](const char* key, double fallback) {
    const double value = parameters.real_or(key, fallback);
    if (!(value > 0)) parameters.fail(key, "is not positive");
    return value;
  };
  if (kind == "longrope" || kind == "su") {
    read_longrope(parameters, config, result);
    return result;
  }
  if (kind != "linear" && kind != "llama3" && kind != "yarn" && kind != "dynamic") {
    parameters.fail("rope_type", fmt::format("{} is not supported", in_quotes(kind)));
  }
  result.factor = parameters.has("factor") ? positive("factor", 1) : 0;
  if (kind == "linear") {
    result.scaling = RotaryConfig::Scaling::linear;
  } else {
    const double context = static_cast<double>(config.integer_or("max_position_embeddings", 2048, 1, INT64_MAX));
    result.original_length = positive("original_max_position_embeddings", context);
    if (result.factor == 0) result.factor = context / result.original_length;
  }
  if (result.factor == 0) parameters.fail("factor", "is missing");
  if (kind == "dynamic") {
    if (!parameters.has("factor")) parameters.fail("factor", "is missing");
    result.scaling = RotaryConfig::Scaling::dynamic;
    // Texts are stretched from the length that the model was made for.
    result.original_length = static_cast<double>(config.integer("max_position_embeddings", 1, INT64_MAX));
    result.length = result.original_length;
    if (result.dims < 4) parameters.fail("rope_type", "dynamic embeddings rotate at least 4 elements");
  }
  if (kind == "llama3") {
    result.scaling = RotaryConfig::Scaling::llama3;
    result.low_frequency = positive("low_freq_factor", 1);
    result.high_frequency = positive("high_freq_factor", 4);
  }
  if (kind == "yarn") {
    result.scaling = RotaryConfig::Scaling::yarn;
    result.fast = positive("beta_fast", 32);
    result.slow = positive("beta_slow", 1);
    result.truncate = parameters.flag_or("truncate", true);
    const auto strength = [&](double by) {
      return result.factor <= 1 ? 1.0 : 0.1 * by * scalar::ls_log(result.factor) + 1;
    };
    const double part = parameters.real_or("mscale", 0);
    const double all = parameters.real_or("mscale_all_dim", 0);
    const double usual = part != 0 && all != 0 ? strength(part) / strength(all) : strength(1);
    result.amplitude = parameters.real_or("attention_factor", usual);
  }
  return result;
}

RotaryConfig read_rotary(const JsonFields& config, std::int64_t head_dim) {
  const double base = config.real_or("rope_theta", config.real_or("rotary_emb_base", 10000));
  const double share = config.real_or("partial_rotary_factor", config.real_or("rotary_pct", 1));
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (config.has(key)) return read_rotary_of(config.object(key), config, head_dim, base, share);
  }
  const nlohmann::json nothing = nlohmann::json::object();
  return read_rotary_of(JsonFields(nothing, config.where()), config, head_dim, base, share);
}

bool read_layer_types(const JsonFields& config, DecoderConfig& result) {
  if (!config.has("layer_types")) return false;
  const std::vector<std::string> types = config.texts("layer_types");
  if (types.size() != result.layers.size()) config.fail("layer_types", "does not have an entry for each layer");
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] == "sliding_attention") {
      result.layers[i].window = config.integer("sliding_window", 1, INT32_MAX);
    } else if (types[i] == "full_attention") {
      result.layers[i].window = 0;
    } else if (types[i] == "conv" && result.family == "lfm2") {
      result.layers[i].mixer = Mixer::convolution;
    } else if (types[i] == "linear_attention" && result.delta.key_heads > 0) {
      result.layers[i].mixer = Mixer::delta;
    } else {
      config.fail("layer_types", fmt::format("layers of the kind {} are not supported", in_quotes(types[i])));
    }
  }
  return true;
}

DecoderConfig read_common(const JsonFields& config, const char* norm, bool tied) {
  DecoderConfig result;
  result.family = config.text("model_type");
  result.vocabulary = config.integer("vocab_size", 1, kMaxSize);
  result.hidden = config.integer("hidden_size", 1, kMaxSize);
  result.context = config.integer_or("max_position_embeddings", 0, 1, INT64_MAX);
  result.norm.eps = config.real_or(norm, 1e-6);
  result.feed.size = config.integer("intermediate_size", 1, kMaxSize);
  result.feed.activation = read_activation(config, "hidden_act", "silu");
  result.tied = config.flag_or("tie_word_embeddings", tied);

  AttentionConfig& attention = result.attention;
  attention.heads = config.integer("num_attention_heads", 1, kMaxHeads);
  attention.kv_heads = config.integer_or("num_key_value_heads", attention.heads, 1, kMaxHeads);
  if (attention.heads % attention.kv_heads != 0) config.fail("num_key_value_heads", "does not divide the heads");
  attention.head_dim = config.integer_or("head_dim", result.hidden / attention.heads, 1, kMaxHeads);
  attention.scale = 1 / std::sqrt(static_cast<double>(attention.head_dim));

  result.layers.resize(static_cast<std::size_t>(config.integer("num_hidden_layers", 1, kMaxLayers)));
  const bool by_kind = config.has("rope_parameters") && config.object("rope_parameters").has("full_attention");
  if (!by_kind) result.rotary = {read_rotary(config, attention.head_dim)};
  return result;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
