// What a language model is made of, as data: one transformer is described by a DecoderConfig, whatever its family. The
// names of its parameters are those of published weights, so they are part of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace models {

enum class NormKind : std::uint8_t { rms, layer };
enum class Activation : std::uint8_t { silu, gelu, gelu_tanh, relu, tanh };

struct NormConfig {
  NormKind kind = NormKind::rms;
  bool weight = true;
  bool bias = false;
  bool one_more = false;  ///< The factor is 1 + weight (Gemma).
  double eps = 1e-6;
};

/// How positions turn queries and keys.
struct RotaryConfig {
  enum class Scaling : std::uint8_t { none, linear, llama3, yarn, longrope, dynamic };
  std::int64_t dims = 0;     ///< Rotated elements of a head; 0: none.
  bool interleaved = false;  ///< Pairs are neighbours, not halves.
  double base = 10000;
  Scaling scaling = Scaling::none;
  double factor = 1;
  double low_frequency = 1;  ///< llama3
  double high_frequency = 4;
  double original_length = 0;  ///< llama3, yarn, dynamic; longrope: up to which `factors` hold
  double fast = 32;            ///< yarn
  double slow = 1;
  bool truncate = true;
  double amplitude = 1;             ///< Of cosine and sine.
  std::vector<float> factors;       ///< That frequencies are divided by, one a pair; empty: none.
  std::vector<float> long_factors;  ///< longrope: for texts that may be longer.
  double length = 0;                ///< dynamic: of the texts that the model is used for.

  friend bool operator==(const RotaryConfig&, const RotaryConfig&) = default;
};

struct ExpertsConfig {
  enum class Gate : std::uint8_t {
    softmax,         ///< Over all experts, then the best ones.
    softmax_of_top,  ///< Over the logits of the best ones.
    sigmoid,         ///< Of each, chosen within groups with a correction (DeepSeek V3).
  };
  std::int64_t count = 0;
  std::int64_t used = 0;
  std::int64_t size = 0;  ///< Hidden features of an expert.
  Gate gate = Gate::softmax;
  bool normalize = false;  ///< Weights of the chosen ones add up to 1.
  double scale = 1;
  std::int64_t groups = 1;
  std::int64_t used_groups = 1;
  bool router_bias = false;
  bool stacked = false;      ///< gpt-oss: all experts in one tensor [E, in, out], gate and up in turns, with biases.
  std::int64_t shared = 0;   ///< Hidden features of the expert that every token uses,
  bool shared_gate = false;  ///< which has a gate of its own.
};

/// Where queries, keys and values come from.
enum class Fusion : std::uint8_t {
  none,          ///< A projection each.
  concatenated,  ///< All queries, all keys, all values.
  grouped,       ///< For each key head: its queries, key, value.
};

/// Multi-head latent attention (DeepSeek V2).
struct LatentConfig {
  std::int64_t query_rank = 0;  ///< 0: queries are projected at once.
  std::int64_t rank = 0;        ///< 0: ordinary attention.
  std::int64_t rotated = 0;     ///< Elements of a head that carry positions, behind `plain` ones.
  std::int64_t plain = 0;
  std::int64_t value = 0;
};

struct AttentionConfig {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  bool causal = true;
  bool bias = false;  ///< Of queries, keys and values.
  bool output_bias = false;
  double scale = 0;  ///< Of the scores.
  double softcap = 0;
  bool head_norm = false;  ///< Queries and keys are normalised, head by head,
  bool full_norm = false;  ///< or all heads together (OLMo 2).
  bool paired = false;     ///< Rows of queries and keys stand as neighbours where published weights have halves (GGUF).
  bool gated = false;      ///< Queries are projected with a gate behind each head's, of what the head gives.
  bool sinks = false;      ///< A logit for each head that takes part in the softmax and goes nowhere (gpt-oss).
  Fusion fusion = Fusion::none;
  LatentConfig latent;
};

/// What a layer mixes its tokens with.
enum class Mixer : std::uint8_t { attention, convolution, delta };

struct ConvolutionConfig {
  std::int64_t kernel = 3;
  bool bias = false;
};

/// Gated delta networks.
struct DeltaConfig {
  std::int64_t key_heads = 0;
  std::int64_t key_size = 0;
  std::int64_t value_heads = 0;
  std::int64_t value_size = 0;
  std::int64_t kernel = 4;
  double eps = 1e-6;
};

struct FeedForwardConfig {
  std::int64_t size = 0;
  bool gated = true;
  bool fused = false;  ///< Gate and up are one projection, the gate in front.
  bool bias = false;
  Activation activation = Activation::silu;
  bool clamped = false;  ///< gpt-oss: gates and values are clamped to `limit`, gates are gate * sigmoid(alpha * gate),
  double limit = 7;      ///< and one is added to values.
  double alpha = 1.702;
};

/// What makes a text's labels of its hidden states (…ForSequenceClassification): those of a token, or their mean,
/// through `dense`, an activation and a norm, if there are such, to a logit for each label.
struct ClassifierConfig {
  enum class Pooling : std::uint8_t { first, mean, last };
  std::int64_t labels = 0;  ///< 0: there is none.
  Pooling pooling = Pooling::first;
  Activation activation = Activation::tanh;
  bool dense_bias = true;
  bool bias = true;
  bool identity = false;  ///< Scores are the logits themselves, by the word of the model's files.
};

struct LayerConfig {
  Mixer mixer = Mixer::attention;
  std::int64_t window = 0;  ///< Keys that a query sees, itself included (both sides: encoders); 0: all.
  int rotary = 0;           ///< Of DecoderConfig::rotary; -1: positions do not matter.
  bool experts = false;
  bool first_norm = true;  ///< Whether attention has its norm in front (ModernBERT's first layer has none).
};

/// Names below the layer's own; an empty one: there is no such thing.
struct LayerNames {
  std::string attention_norm = "input_layernorm";
  std::string attention_after;  ///< The norm of what attention gives, before it is added.
  std::string feed_norm = "post_attention_layernorm";
  std::string feed_after;
  std::string query = "self_attn.q_proj";
  std::string key = "self_attn.k_proj";
  std::string value = "self_attn.v_proj";
  std::string fused;
  std::string query_norm = "self_attn.q_norm";
  std::string key_norm = "self_attn.k_norm";
  std::string output = "self_attn.o_proj";
  std::string gate = "mlp.gate_proj";
  std::string up = "mlp.up_proj";
  std::string down = "mlp.down_proj";
  std::string router = "mlp.gate";
  std::string experts = "mlp.experts";  ///< Then ".<number>." and expert_gate, expert_up, expert_down.
  std::string expert_gate = "gate_proj";
  std::string expert_up = "up_proj";
  std::string expert_down = "down_proj";
  std::string shared = "mlp.shared_experts";
  std::string shared_gate = "mlp.shared_expert_gate";
  std::string convolution = "conv";
  std::string delta = "linear_attn";
};

struct ModelNames {
  std::string embedding = "model.embed_tokens";
  std::string embedding_norm;
  std::string positions;
  std::string token_types;
  std::string layers = "model.layers";
  std::string norm = "model.norm";
  std::string head = "lm_head";
  std::string dense;  ///< Of the classifier,
  std::string dense_norm;
  std::string classifier;
  LayerNames layer;
};

struct DecoderConfig {
  std::string family;  ///< "llama": model_type of config.json.
  std::int64_t vocabulary = 0;
  std::int64_t hidden = 0;
  std::int64_t context = 0;  ///< Positions that the model was made for; a limit where they are learned.
  NormConfig norm;
  AttentionConfig attention;
  ConvolutionConfig convolution;
  DeltaConfig delta;
  FeedForwardConfig feed;
  ExpertsConfig experts;
  std::vector<LayerConfig> layers;
  std::vector<RotaryConfig> rotary;  ///< The different ones that layers use.

  bool parallel = false;     ///< Attention and feed-forward read the same input. feed_norm empty: and the same norm.
  bool norm_behind = false;  ///< BERT: each norm is of the sum. attention_norm and feed_norm are the names.
  bool transposed = false;   ///< Weights are [in, out] (GPT-2).
  bool encoder = false;      ///< Gives hidden states, not logits.
  std::int64_t position_count = 0;   ///< Of learned positions; 0: none.
  std::int64_t position_offset = 0;  ///< RoBERTa's first position.
  std::int64_t token_types = 0;
  double embedding_scale = 1;
  double residual_scale = 1;
  double logit_scale = 1;
  double logit_softcap = 0;
  bool tied = false;  ///< Logits are products with the embedding.
  bool head_bias = false;
  ClassifierConfig classifier;
  ModelNames names;
};

/// Makes it one for texts of up to `context` tokens; 0: of its own length, up to which rotary embeddings need not
/// change. ValueError for more than there are.
void use_context(DecoderConfig& config, std::int64_t context);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
