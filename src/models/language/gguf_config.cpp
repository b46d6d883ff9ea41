// Keys and defaults are those of llama.cpp.
#include "models/language/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/checked.h"
#include "kernels/scalar.h"
#include "models/language/classifier.h"
#include "models/language/gguf_architectures.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

// Of latent attention, files have the sizes that it has when it is computed with latent keys, and beside them
// (key_length_mla, value_length_mla) those of heads; old ones the latter alone.
LatentConfig read_gguf_latent(const GgufFields& fields) {
  LatentConfig latent;
  latent.rank = fields.integer("attention.kv_lora_rank", 1, kMostFeatures);
  latent.query_rank = fields.integer_or("attention.q_lora_rank", 0, 0, kMostFeatures);
  const auto size = [&](const std::string& key) {
    return fields.integer(fields.has(key + "_mla") ? key + "_mla" : key, 1, 65'536);
  };
  latent.rotated = fields.integer("rope.dimension_count", 2, 65'536);
  latent.plain = size("attention.key_length") - latent.rotated;
  latent.value = size("attention.value_length");
  if (latent.plain < 1) fields.fail("rope.dimension_count", "leaves nothing of a head without positions");
  return latent;
}

AttentionConfig read_gguf_attention(const GgufFields& fields, DecoderConfig& config) {
  AttentionConfig attention;
  attention.heads = fields.integer("attention.head_count", 1, 65'536);
  if (fields.has("attention.kv_lora_rank")) {
    attention.latent = read_gguf_latent(fields);
    attention.kv_heads = attention.heads;
    attention.head_dim = attention.latent.plain + attention.latent.rotated;
    attention.scale = 1 / std::sqrt(static_cast<double>(attention.head_dim));
    return attention;
  }
  // Layers without keys are convolutions.
  const std::vector<std::int64_t> keys =
      fields.of_layers_or("attention.head_count_kv", config.layers.size(), attention.heads, 0, attention.heads);
  attention.kv_heads = *std::max_element(keys.begin(), keys.end());
  if (attention.kv_heads == 0) fields.fail("attention.head_count_kv", "is 0");
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] == attention.kv_heads) continue;
    if (keys[i] != 0 || !fields.has("shortconv.l_cache")) {
      fields.fail("attention.head_count_kv", "layers with different numbers of heads are not supported");
    }
    config.layers[i].mixer = Mixer::convolution;
  }
  if (attention.heads % attention.kv_heads != 0) fields.fail("attention.head_count_kv", "does not divide the heads");
  attention.head_dim = fields.integer_or("attention.key_length", config.hidden / attention.heads, 1, 65'536);
  if (fields.integer_or("attention.value_length", attention.head_dim, 1, 65'536) != attention.head_dim) {
    fields.fail("attention.value_length", "differs from key_length");
  }
  attention.scale = 1 / std::sqrt(static_cast<double>(attention.head_dim));
  return attention;
}

// The factors of a tensor, one for each pair; nothing where there is no such tensor.
std::vector<float> rotary_factors(const GgufFields& fields, const io::TensorMap& tensors, const char* name,
                                  std::int64_t dims) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) return {};
  if (found->second.dtype() != DType::f32 || found->second.shape() != Shape{dims / 2}) {
    fields.fail("rope.dimension_count",
                fmt::format("the tensor {} is not an f32 factor for each pair", in_quotes(name)));
  }
  std::vector<float> factors = found->second.to_vector<float>();
  for (const float factor : factors) {
    if (factor > 0 && std::isfinite(factor)) continue;
    fields.fail("rope.dimension_count", fmt::format("{} holds {}, not positive", in_quotes(name), factor));
  }
  return factors;
}

RotaryConfig read_gguf_rotary(const GgufFields& fields, const io::TensorMap& tensors, std::int64_t head_dim,
                              std::int64_t context) {
  RotaryConfig rotary;
  rotary.dims = fields.integer_or("rope.dimension_count", head_dim, 2, head_dim);
  if (rotary.dims % 2 != 0) fields.fail("rope.dimension_count", "is odd");
  rotary.base = fields.positive_or("rope.freq_base", 10000);
  rotary.factors = rotary_factors(fields, tensors, "rope_freqs.weight", rotary.dims);
  const auto original = [&] {
    rotary.original_length = static_cast<double>(fields.integer("rope.scaling.original_context_length", 1, INT32_MAX));
  };
  // LongRoPE is known by its tensors: old files call its scaling "none".
  std::vector<float> longer = rotary_factors(fields, tensors, "rope_factors_long.weight", rotary.dims);
  if (!longer.empty()) {
    rotary.scaling = RotaryConfig::Scaling::longrope;
    rotary.long_factors = std::move(longer);
    rotary.factors = rotary_factors(fields, tensors, "rope_factors_short.weight", rotary.dims);
    if (rotary.factors.empty()) fields.fail("rope.scaling", "there is no tensor \"rope_factors_short.weight\"");
    original();
    const double stretch = static_cast<double>(context) / rotary.original_length;
    const double usual =
        stretch <= 1 ? 1 : std::sqrt(1 + scalar::ls_log(stretch) / scalar::ls_log(rotary.original_length));
    rotary.amplitude = fields.positive_or("rope.scaling.attn_factor", usual);
    return rotary;
  }
  const std::string scaling = fields.text_or("rope.scaling.type", "none");
  if (scaling == "none") return rotary;
  rotary.factor = fields.positive_or("rope.scaling.factor", 1);
  if (scaling == "linear") {
    rotary.scaling = RotaryConfig::Scaling::linear;
  } else if (scaling == "yarn") {
    rotary.scaling = RotaryConfig::Scaling::yarn;
    original();
    rotary.fast = fields.positive_or("rope.scaling.yarn_beta_fast", 32);
    rotary.slow = fields.positive_or("rope.scaling.yarn_beta_slow", 1);
    if (rotary.factor > 1) rotary.amplitude = 0.1 * scalar::ls_log(rotary.factor) + 1;
    rotary.amplitude *= fields.positive_or("rope.scaling.attn_factor", 1);
  } else {
    fields.fail("rope.scaling.type", fmt::format("{} is not supported", in_quotes(scaling)));
  }
  return rotary;
}

}  // namespace

bool has_paired_rows(const io::Metadata& metadata, const std::string& path) {
  return gguf_architecture_of(metadata, path).paired;
}

DecoderConfig read_gguf_config(const io::Metadata& metadata, const io::TensorMap& tensors, const std::string& path) {
  const GgufArchitecture& row = gguf_architecture_of(metadata, path);
  const GgufFields fields(metadata, path, std::string(row.name) + ".");
  DecoderConfig config;
  config.family = row.name;
  config.hidden = fields.integer("embedding_length", 1, kMostFeatures);
  config.context = fields.integer_or("context_length", 0, 1, INT64_MAX);
  config.norm.eps = fields.positive_or("attention.layer_norm_rms_epsilon", 1e-6);
  // A mixture may say the size of its experts alone.
  const bool own = fields.has("feed_forward_length") || !fields.has("expert_feed_forward_length");
  config.feed.size = fields.integer(own ? "feed_forward_length" : "expert_feed_forward_length", 1, kMostFeatures);
  config.layers.resize(static_cast<std::size_t>(fields.integer("block_count", 1, 512)));
  config.attention = read_gguf_attention(fields, config);
  config.attention.paired = row.paired;
  config.attention.bias = tensors.contains("blk.0.attn_q.bias");
  config.attention.output_bias = tensors.contains("blk.0.attn_output.bias");
  config.feed.bias = tensors.contains("blk.0.ffn_up.bias");
  const LatentConfig& latent = config.attention.latent;
  const std::int64_t turned = latent.rank > 0 ? latent.rotated : config.attention.head_dim;
  config.rotary = {read_gguf_rotary(fields, tensors, turned, config.context)};
  config.tied = !tensors.contains("output.weight");
  row.adapt({fields, tensors}, config);
  read_gguf_classifier({fields, tensors}, config);
  if (config.experts.count == 0 && fields.integer_or("expert_count", 0, 0, 4096) > 0) {
    fields.fail("expert_count", "experts are not supported");
  }
  return config;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
