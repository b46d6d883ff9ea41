// Keys and defaults are those of llama.cpp, whose converter also decides what the tensors hold: Gemma's norms are
// stored with the one added, Llama's queries and keys for pairs of neighbours, GPT-2's weights as [out, in].
#include "models/language/gguf_architectures.h"

#include <array>
#include <cmath>

#include "core/checked.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

constexpr std::int64_t kMostFeatures = std::int64_t{1} << 24;

/// What an architecture adds to the common description.
struct GgufSource {
  const GgufFields& fields;
  const io::TensorMap& tensors;
};

struct Architecture {
  std::string_view name;
  void (*adapt)(const GgufSource& source, DecoderConfig& config);
};

void gguf_experts(const GgufSource& source, DecoderConfig& config, std::int64_t size) {
  ExpertsConfig& experts = config.experts;
  experts.count = source.fields.integer("expert_count", 1, 4096);
  experts.used = source.fields.integer("expert_used_count", 1, experts.count);
  experts.size = size;
  experts.normalize = source.fields.flag_or("expert_weights_norm", true);
  for (LayerConfig& layer : config.layers) layer.experts = true;
}

// Mixtral is a llama with experts; its published names are other ones.
void gguf_llama(const GgufSource& source, DecoderConfig& config) {
  config.rotary.front().interleaved = true;
  config.attention.paired = true;
  if (source.fields.integer_or("expert_count", 0, 0, 4096) == 0) return;
  gguf_experts(source, config, config.feed.size);
  LayerNames& names = config.names.layer;
  names.router = "block_sparse_moe.gate";
  names.experts = "block_sparse_moe.experts";
  names.expert_gate = "w1";
  names.expert_up = "w3";
  names.expert_down = "w2";
}

void gguf_qwen2(const GgufSource&, DecoderConfig& config) {
  config.attention.bias = true;
}

void gguf_qwen3(const GgufSource&, DecoderConfig& config) {
  config.attention.head_norm = true;
}

void gguf_qwen3moe(const GgufSource& source, DecoderConfig& config) {
  config.attention.head_norm = true;
  gguf_experts(source, config, source.fields.integer("expert_feed_forward_length", 1, kMostFeatures));
}

void gguf_gemma(const GgufSource&, DecoderConfig& config) {
  config.feed.activation = Activation::gelu_tanh;
  config.embedding_scale = static_cast<double>(static_cast<float>(std::sqrt(static_cast<double>(config.hidden))));
}

// Gemma 2 and 3: norms behind both parts. Files do not hold query_pre_attn_scalar: it is the head's size, but that of
// an even share of the features for the models of 27 B, which are known by their layers.
void gguf_gemma_of_four_norms(const GgufSource& source, DecoderConfig& config, std::size_t layers_of_27b) {
  gguf_gemma(source, config);
  LayerNames& names = config.names.layer;
  names.attention_after = "post_attention_layernorm";
  names.feed_norm = "pre_feedforward_layernorm";
  names.feed_after = "post_feedforward_layernorm";
  if (config.layers.size() == layers_of_27b) {
    config.attention.scale =
        1 / std::sqrt(static_cast<double>(config.hidden) / static_cast<double>(config.attention.heads));
  }
}

void gguf_gemma2(const GgufSource& source, DecoderConfig& config) {
  constexpr std::size_t kLayersOf27b = 46;
  gguf_gemma_of_four_norms(source, config, kLayersOf27b);
  config.attention.softcap = source.fields.positive_or("attn_logit_softcapping", 50);
  config.logit_softcap = source.fields.positive_or("final_logit_softcapping", 30);
  const std::int64_t window = source.fields.integer_or("attention.sliding_window", 4096, 1, INT32_MAX);
  for (std::size_t i = 0; i < config.layers.size(); i += 2) config.layers[i].window = window;
}

void gguf_gemma3(const GgufSource& source, DecoderConfig& config) {
  constexpr std::size_t kLayersOf27b = 62;
  constexpr std::size_t kPattern = 6;  // The last of six layers sees everything.
  gguf_gemma_of_four_norms(source, config, kLayersOf27b);
  config.attention.head_norm = true;
  config.logit_softcap = source.fields.positive_or("final_logit_softcapping", 0);
  const std::int64_t window = source.fields.integer("attention.sliding_window", 1, INT32_MAX);
  RotaryConfig local;
  local.dims = config.rotary.front().dims;
  local.base = source.fields.positive_or("rope.freq_base_swa", 10000);
  config.rotary.push_back(local);
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    if ((i + 1) % kPattern == 0) continue;
    config.layers[i].window = window;
    config.layers[i].rotary = 1;
  }
}

void gguf_phi3(const GgufSource& source, DecoderConfig& config) {
  if (source.tensors.contains("rope_factors_long.weight") || source.tensors.contains("rope_factors_short.weight")) {
    source.fields.fail("rope.scaling", "longrope (tensors rope_factors_long and rope_factors_short) is not supported");
  }
  config.attention.fusion = Fusion::concatenated;
  config.feed.fused = true;
  config.names.layer.fused = "self_attn.qkv_proj";
  config.names.layer.up = "mlp.gate_up_proj";
  const std::int64_t window = source.fields.integer_or("attention.sliding_window", 0, 0, INT32_MAX);
  for (LayerConfig& layer : config.layers) layer.window = window;
}

// Layer norms with biases, and a feed-forward layer without a gate.
void gguf_layer_norm(const GgufSource& source, DecoderConfig& config) {
  const double eps = source.fields.positive_or("attention.layer_norm_epsilon", 1e-5);
  config.norm = {.kind = NormKind::layer, .bias = true, .eps = eps};
}

// Names of its own: the published ones belong to weights that are stored [in, out].
void gguf_gpt2(const GgufSource& source, DecoderConfig& config) {
  gguf_layer_norm(source, config);
  const auto positions = source.tensors.find("position_embd.weight");
  if (positions == source.tensors.end() || positions->second.rank() != 2) {
    source.fields.fail("context_length", "there is no tensor \"position_embd.weight\" of two dimensions");
  }
  config.position_count = positions->second.size(0);
  config.attention.fusion = Fusion::concatenated;
  config.attention.bias = config.attention.output_bias = true;
  config.feed.gated = false;
  config.feed.bias = true;
  config.feed.activation = Activation::gelu_tanh;
  config.rotary.clear();
  for (LayerConfig& layer : config.layers) layer.rotary = -1;
  config.names.positions = "model.embed_positions";
  config.names.layer.fused = "self_attn.qkv_proj";
}

void gguf_olmo2(const GgufSource& source, DecoderConfig& config) {
  if (source.fields.integer_or("attention.sliding_window", 0, 0, INT32_MAX) > 0) {
    source.fields.fail("attention.sliding_window", "windows (OLMo 3) are not supported");
  }
  config.attention.full_norm = true;
  LayerNames& names = config.names.layer;
  names.attention_norm = "";
  names.attention_after = "post_attention_layernorm";
  names.feed_norm = "";
  names.feed_after = "post_feedforward_layernorm";
}

void gguf_stablelm(const GgufSource& source, DecoderConfig& config) {
  gguf_layer_norm(source, config);
  if (source.tensors.contains("blk.0.attn_q_norm.weight")) {
    source.fields.fail("attention", "norms of queries and keys are not supported");
  }
  config.parallel = !source.tensors.contains("blk.0.ffn_norm.weight");
  if (config.parallel) config.names.layer.feed_norm = "";
}

void gguf_starcoder2(const GgufSource& source, DecoderConfig& config) {
  gguf_layer_norm(source, config);
  config.feed.gated = false;
  config.feed.activation = Activation::gelu_tanh;
  config.names.layer.up = "mlp.c_fc";
  config.names.layer.down = "mlp.c_proj";
}

constexpr std::array kArchitectures = {
    Architecture{"gemma", gguf_gemma},       Architecture{"gemma2", gguf_gemma2},
    Architecture{"gemma3", gguf_gemma3},     Architecture{"gpt2", gguf_gpt2},
    Architecture{"llama", gguf_llama},       Architecture{"olmo2", gguf_olmo2},
    Architecture{"phi3", gguf_phi3},         Architecture{"qwen2", gguf_qwen2},
    Architecture{"qwen3", gguf_qwen3},       Architecture{"qwen3moe", gguf_qwen3moe},
    Architecture{"stablelm", gguf_stablelm}, Architecture{"starcoder2", gguf_starcoder2},
};

const Architecture& architecture_of(const io::Metadata& metadata, const std::string& path) {
  const std::string name = GgufFields(metadata, path, "general.").text_or("architecture", "");
  for (const Architecture& row : kArchitectures) {
    if (row.name == name) return row;
  }
  std::string known;
  for (const Architecture& row : kArchitectures) known += (known.empty() ? "" : ", ") + std::string(row.name);
  throw FormatError(
      fmt::format("{}: general.architecture: {} is not supported in GGUF files ({})", path, in_quotes(name), known));
}

AttentionConfig read_gguf_attention(const GgufFields& fields, std::int64_t hidden) {
  AttentionConfig attention;
  attention.heads = fields.integer("attention.head_count", 1, 65'536);
  attention.kv_heads = fields.integer_or("attention.head_count_kv", attention.heads, 1, attention.heads);
  if (attention.heads % attention.kv_heads != 0) fields.fail("attention.head_count_kv", "does not divide the heads");
  attention.head_dim = fields.integer_or("attention.key_length", hidden / attention.heads, 1, 65'536);
  if (fields.integer_or("attention.value_length", attention.head_dim, 1, 65'536) != attention.head_dim) {
    fields.fail("attention.value_length", "differs from key_length");
  }
  attention.scale = 1 / std::sqrt(static_cast<double>(attention.head_dim));
  return attention;
}

RotaryConfig read_gguf_rotary(const GgufFields& fields, const io::TensorMap& tensors, std::int64_t head_dim) {
  RotaryConfig rotary;
  rotary.dims = fields.integer_or("rope.dimension_count", head_dim, 2, head_dim);
  if (rotary.dims % 2 != 0) fields.fail("rope.dimension_count", "is odd");
  rotary.base = fields.positive_or("rope.freq_base", 10000);
  const std::string scaling = fields.text_or("rope.scaling.type", "none");
  if (scaling == "linear") {
    rotary.scaling = RotaryConfig::Scaling::linear;
    rotary.factor = fields.positive_or("rope.scaling.factor", 1);
  } else if (scaling != "none") {
    fields.fail("rope.scaling.type", fmt::format("{} is not supported", in_quotes(scaling)));
  }
  const auto factors = tensors.find("rope_freqs.weight");
  if (factors == tensors.end()) return rotary;
  if (factors->second.dtype() != DType::f32 || factors->second.shape() != Shape{rotary.dims / 2}) {
    fields.fail("rope.dimension_count", "the tensor \"rope_freqs.weight\" is not an f32 factor for each pair");
  }
  rotary.factors = factors->second.to_vector<float>();
  for (const float factor : rotary.factors) {
    if (!(factor > 0) || !std::isfinite(factor)) {
      fields.fail("rope.dimension_count", fmt::format("\"rope_freqs.weight\" holds {}, not positive", factor));
    }
  }
  return rotary;
}

}  // namespace

DecoderConfig read_gguf_config(const io::Metadata& metadata, const io::TensorMap& tensors, const std::string& path) {
  const Architecture& row = architecture_of(metadata, path);
  const GgufFields fields(metadata, path, std::string(row.name) + ".");
  DecoderConfig config;
  config.family = row.name;
  config.hidden = fields.integer("embedding_length", 1, kMostFeatures);
  config.context = fields.integer_or("context_length", 0, 1, INT64_MAX);
  config.norm.eps = fields.positive_or("attention.layer_norm_rms_epsilon", 1e-6);
  config.feed.size = fields.integer("feed_forward_length", 1, kMostFeatures);
  config.layers.resize(static_cast<std::size_t>(fields.integer("block_count", 1, 512)));
  config.attention = read_gguf_attention(fields, config.hidden);
  config.attention.bias = tensors.contains("blk.0.attn_q.bias");
  config.attention.output_bias = tensors.contains("blk.0.attn_output.bias");
  config.feed.bias = tensors.contains("blk.0.ffn_up.bias");
  config.rotary = {read_gguf_rotary(fields, tensors, config.attention.head_dim)};
  config.tied = !tensors.contains("output.weight");
  row.adapt({fields, tensors}, config);
  if (config.experts.count == 0 && fields.integer_or("expert_count", 0, 0, 4096) > 0) {
    fields.fail("expert_count", "experts are not supported");
  }
  return config;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
