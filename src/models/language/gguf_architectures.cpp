// Keys and defaults are those of llama.cpp, whose converter also decides what the tensors hold: Gemma's norms are
// stored with the one added, Llama's queries and keys for pairs of neighbours, GPT-2's weights as [out, in].
#include "models/language/gguf_architectures.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/checked.h"
#include "kernels/scalar.h"
#include "models/language/families.h"
#include "models/language/gguf_other.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

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

void gguf_learned_positions(const GgufSource& source, DecoderConfig& config) {
  const auto positions = source.tensors.find("position_embd.weight");
  if (positions == source.tensors.end() || positions->second.rank() != 2) {
    source.fields.fail("context_length", "there is no tensor \"position_embd.weight\" of two dimensions");
  }
  config.position_count = positions->second.size(0);
  config.rotary.clear();
  for (LayerConfig& layer : config.layers) layer.rotary = -1;
}

// Names of its own: the published ones belong to weights that are stored [in, out].
void gguf_gpt2(const GgufSource& source, DecoderConfig& config) {
  gguf_layer_norm(source, config);
  gguf_learned_positions(source, config);
  config.attention.fusion = Fusion::concatenated;
  config.attention.bias = config.attention.output_bias = true;
  config.feed.gated = false;
  config.feed.bias = true;
  config.feed.activation = Activation::gelu_tanh;
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

// Cohere's Command R: rotary embeddings of neighbours, as published.
void gguf_command_r(const GgufSource& source, DecoderConfig& config) {
  if (source.tensors.contains("blk.0.attn_q_norm.weight")) {
    source.fields.fail("attention", "norms of queries and keys are not supported");
  }
  gguf_layer_norm(source, config);
  config.norm.bias = false;
  config.rotary.front().interleaved = true;
  config.parallel = true;
  config.names.layer.feed_norm = "";
  config.logit_scale = source.fields.positive_or("logit_scale", 1);
}

// The converter puts all queries before all keys and values.
void gguf_falcon(const GgufSource& source, DecoderConfig& config) {
  if (source.tensors.contains("blk.0.attn_norm_2.weight")) {
    source.fields.fail("attention", "two norms in front (new_decoder_architecture) are not supported");
  }
  gguf_layer_norm(source, config);
  config.attention.fusion = Fusion::concatenated;
  config.attention.bias = source.tensors.contains("blk.0.attn_qkv.bias");
  config.feed.gated = false;
  config.feed.activation = Activation::gelu;
  config.parallel = true;
  use_falcon_names(config.names);
  if (config.attention.kv_heads > 1) config.names.layer.fused = "self_attn.qkv_proj";  // not as published
}

void gguf_glm4(const GgufSource&, DecoderConfig& config) {
  config.rotary.front().interleaved = true;
  config.feed.fused = true;
  use_glm4_names(config.names);
}

void gguf_gpt_neox(const GgufSource& source, DecoderConfig& config) {
  gguf_layer_norm(source, config);
  config.attention.fusion = Fusion::concatenated;
  config.attention.bias = source.tensors.contains("blk.0.attn_qkv.bias");
  config.feed.gated = false;
  config.feed.activation = Activation::gelu;
  config.parallel = source.fields.flag_or("use_parallel_residual", true);
  use_gpt_neox_names(config.names);
  config.names.layer.fused = "self_attn.qkv_proj";  // not as published
}

// Experts are matrices of their own here, which published weights have in one tensor.
void gguf_gpt_oss(const GgufSource& source, DecoderConfig& config) {
  const std::int64_t size = source.fields.integer_or("expert_feed_forward_length", config.feed.size, 1, kMostFeatures);
  gguf_experts(source, config, size);
  config.experts.gate = ExpertsConfig::Gate::softmax_of_top;
  config.experts.normalize = false;
  config.experts.router_bias = true;
  config.feed.bias = true;
  config.feed.clamped = true;
  config.attention.sinks = true;
  config.rotary.front().truncate = false;
  const std::int64_t window = source.fields.integer("attention.sliding_window", 1, INT32_MAX);
  for (std::size_t i = 0; i < config.layers.size(); i += 2) config.layers[i].window = window;
  config.names.layer.router = "mlp.router";
}

void gguf_granite(const GgufSource& source, DecoderConfig& config) {
  gguf_llama(source, config);
  config.attention.scale = source.fields.positive_or("attention.scale", config.attention.scale);
  config.embedding_scale = source.fields.positive_or("embedding_scale", 1);
  config.residual_scale = source.fields.positive_or("residual_scale", 1);
  config.logit_scale = 1 / source.fields.positive_or("logit_scale", 1);
}

void gguf_olmo(const GgufSource& source, DecoderConfig& config) {
  if (source.fields.has("attention.clamp_kqv")) source.fields.fail("attention.clamp_kqv", "is not supported");
  gguf_llama(source, config);
  config.norm = {
      .kind = NormKind::layer, .weight = false, .eps = source.fields.positive_or("attention.layer_norm_epsilon", 1e-5)};
}

// Phi 1 and 2.
void gguf_phi2(const GgufSource& source, DecoderConfig& config) {
  gguf_layer_norm(source, config);
  config.attention.fusion = source.tensors.contains("blk.0.attn_qkv.weight") ? Fusion::concatenated : Fusion::none;
  config.attention.bias = true;
  config.feed.gated = false;
  config.feed.activation = Activation::gelu_tanh;
  config.parallel = true;
  config.head_bias = true;
  use_phi_names(config.names);
  config.names.layer.fused = "self_attn.qkv_proj";
}

// DeepSeek V2 and V3. What published files call mscale_all_dim is stored times 0.1; mscale, that of cosine and sine, is
// not stored, for published models have the same number twice.
void gguf_deepseek2(const GgufSource& source, DecoderConfig& config) {
  const GgufFields& fields = source.fields;
  if (config.attention.latent.rank == 0) fields.fail("attention.kv_lora_rank", "is missing");
  RotaryConfig& rotary = config.rotary.front();
  rotary.interleaved = true;
  if (rotary.scaling == RotaryConfig::Scaling::yarn) {
    rotary.amplitude = fields.positive_or("rope.scaling.attn_factor", 1);
    const double all =
        fields.has("rope.scaling.yarn_log_multiplier") ? fields.positive_or("rope.scaling.yarn_log_multiplier", 1) : 0;
    const double strength = rotary.factor > 1 ? all * scalar::ls_log(rotary.factor) + 1 : 1;
    config.attention.scale *= strength * strength;
  }
  if (fields.integer_or("expert_count", 0, 0, 4096) == 0) return;
  gguf_experts(source, config, fields.integer("expert_feed_forward_length", 1, kMostFeatures));
  ExpertsConfig& experts = config.experts;
  constexpr std::int64_t kSoftmax = 1;
  constexpr std::int64_t kSigmoid = 2;
  const bool sigmoid = fields.integer_or("expert_gating_func", kSoftmax, kSoftmax, kSigmoid) == kSigmoid;
  experts.gate = sigmoid ? ExpertsConfig::Gate::sigmoid : ExpertsConfig::Gate::softmax;
  experts.normalize = fields.flag_or("expert_weights_norm", false);
  experts.scale = fields.positive_or("expert_weights_scale", 1);
  experts.shared = experts.size * fields.integer_or("expert_shared_count", 0, 0, 64);
  experts.groups = fields.integer_or("expert_group_count", 1, 1, experts.count);
  experts.used_groups = fields.integer_or("expert_group_used_count", 1, 1, experts.groups);
  if (!sigmoid && experts.groups > 1) fields.fail("expert_group_count", "groups need the gate sigmoid");
  if (const std::string_view wrong = wrong_groups(experts); !wrong.empty()) fields.fail("expert_group_count", wrong);
  const std::int64_t dense = fields.integer_or("leading_dense_block_count", 0, 0, INT32_MAX);
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    config.layers[i].experts = static_cast<std::int64_t>(i) >= dense;
  }
}

// The last norm is called that of the embedding, as in published files.
void gguf_lfm2(const GgufSource& source, DecoderConfig& config) {
  config.convolution.kernel = source.fields.integer("shortconv.l_cache", 2, 1024);
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    if (source.tensors.contains(fmt::format("blk.{}.shortconv.conv.bias", i))) config.convolution.bias = true;
  }
  config.attention.head_norm = true;
  use_lfm2_names(config.names);
}

// Every fourth layer goes without positions.
void gguf_smollm3(const GgufSource& source, DecoderConfig& config) {
  constexpr std::size_t kPattern = 4;
  gguf_llama(source, config);
  for (std::size_t i = kPattern - 1; i < config.layers.size(); i += kPattern) config.layers[i].rotary = -1;
}

void gguf_encoder(const GgufSource& source, DecoderConfig& config) {
  gguf_layer_norm(source, config);
  config.encoder = true;
  config.norm_behind = true;
  config.attention.causal = source.fields.flag_or("attention.causal", false);
  const auto types = source.tensors.find("token_types.weight");
  if (types != source.tensors.end() && types->second.rank() == 2) config.token_types = types->second.size(0);
  config.tied = true;
}

// BERT; RoBERTa, too, whose unused first positions the converter leaves out.
void gguf_bert(const GgufSource& source, DecoderConfig& config) {
  gguf_encoder(source, config);
  gguf_learned_positions(source, config);
  config.feed.gated = false;
  config.feed.activation = Activation::gelu;
  use_bert_names(config.names);
}

// A token sees half of the window on either side, and itself; every third layer, the first one too, sees everything.
void gguf_modern_bert(const GgufSource& source, DecoderConfig& config) {
  const GgufFields& fields = source.fields;
  gguf_encoder(source, config);
  config.norm_behind = false;
  config.norm.bias = source.tensors.contains("output_norm.bias");
  config.attention.fusion = Fusion::concatenated;
  config.attention.bias = source.tensors.contains("blk.0.attn_qkv.bias");
  config.feed.fused = true;
  const std::string activation = fields.text_or("hidden_activation", "gelu");
  if (activation != "gelu" && activation != "silu")
    fields.fail("hidden_activation", "only gelu and silu are supported");
  config.feed.activation = activation == "gelu" ? Activation::gelu : Activation::silu;
  RotaryConfig local;
  local.dims = config.rotary.front().dims;
  local.base = fields.positive_or("rope.freq_base_swa", 10000);
  config.rotary.push_back(local);
  const std::int64_t window = fields.integer("attention.sliding_window", 1, INT32_MAX) / 2 + 1;
  const auto every = static_cast<std::size_t>(fields.integer_or("attention.sliding_window_pattern", 3, 1, 1024));
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    if (i % every == 0) continue;
    config.layers[i].window = window;
    config.layers[i].rotary = 1;
  }
  config.layers.front().first_norm = false;
  use_modernbert_names(config.names);
}

void gguf_nomic_bert(const GgufSource& source, DecoderConfig& config) {
  if (source.fields.integer_or("expert_count", 0, 0, 4096) > 0) source.fields.fail("expert_count", "is not supported");
  gguf_encoder(source, config);
  config.attention.fusion = Fusion::concatenated;
  config.attention.bias = source.tensors.contains("blk.0.attn_qkv.bias");
  use_nomic_bert_names(config.names);
}

constexpr std::array kArchitectures = {
    GgufArchitecture{"bert", gguf_bert},
    GgufArchitecture{"command-r", gguf_command_r},
    GgufArchitecture{"deepseek2", gguf_deepseek2},
    GgufArchitecture{"falcon", gguf_falcon},
    GgufArchitecture{"gemma", gguf_gemma},
    GgufArchitecture{"gemma2", gguf_gemma2},
    GgufArchitecture{"gemma3", gguf_gemma3},
    GgufArchitecture{"glm4", gguf_glm4},
    GgufArchitecture{"gpt-oss", gguf_gpt_oss},
    GgufArchitecture{"gpt2", gguf_gpt2},
    GgufArchitecture{"gptneox", gguf_gpt_neox},
    GgufArchitecture{"granite", gguf_granite, true},
    GgufArchitecture{"lfm2", gguf_lfm2},
    GgufArchitecture{"llama", gguf_llama, true},
    GgufArchitecture{"modern-bert", gguf_modern_bert},
    GgufArchitecture{"nomic-bert", gguf_nomic_bert},
    GgufArchitecture{"olmo", gguf_olmo, true},
    GgufArchitecture{"olmo2", gguf_olmo2},
    GgufArchitecture{"phi2", gguf_phi2},
    GgufArchitecture{"phi3", gguf_phi3},
    GgufArchitecture{"qwen2", gguf_qwen2},
    GgufArchitecture{"qwen3", gguf_qwen3},
    GgufArchitecture{"qwen3moe", gguf_qwen3moe},
    GgufArchitecture{"smollm3", gguf_smollm3, true},
    GgufArchitecture{"stablelm", gguf_stablelm},
    GgufArchitecture{"starcoder2", gguf_starcoder2},
};

}  // namespace

const GgufArchitecture& gguf_architecture_of(const io::Metadata& metadata, const std::string& path) {
  const std::string name = GgufFields(metadata, path, "general.").text_or("architecture", "");
  for (const GgufArchitecture& row : kArchitectures) {
    if (row.name == name) return row;
  }
  std::string known;
  for (const GgufArchitecture& row : kArchitectures) known += std::string(row.name) + ", ";
  for (const std::string_view other : gguf_other_architectures()) {
    if (other == name) {
      throw FormatError(
          fmt::format("{}: general.architecture: {} has no adapters and is not saved", path, in_quotes(name)));
    }
    known += std::string(other) + (other == gguf_other_architectures().back() ? "" : ", ");
  }
  throw FormatError(
      fmt::format("{}: general.architecture: {} is not supported in GGUF files ({})", path, in_quotes(name), known));
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
