#include "models/language/gguf_model.h"

#include <array>
#include <cmath>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/io/weights.h>

#include "core/checked.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

struct Architecture {
  std::string_view name;
  bool interleaved;  ///< Queries and keys are stored for pairs of neighbours.
  bool bias;
  bool head_norm;
};
constexpr std::array kArchitectures = {Architecture{"llama", true, false, false},
                                       Architecture{"qwen2", false, true, false},
                                       Architecture{"qwen3", false, false, true}};

/// Metadata below the architecture's name.
class Fields {
 public:
  Fields(const io::Metadata& metadata, std::string file, std::string prefix)
      : metadata_(metadata), file_(std::move(file)), prefix_(std::move(prefix)) {}

  bool has(const std::string& key) const { return metadata_.contains(prefix_ + key); }

  std::int64_t integer(const std::string& key, std::int64_t least, std::int64_t most) const {
    const io::MetadataValue& value = at(key);
    std::int64_t result = 0;
    try {
      result = value.as_integer();
    } catch (const ValueError&) {
      fail(key, fmt::format("is {}, not an integer", value.kind()));
    }
    if (result < least || result > most) fail(key, fmt::format("{} is not from {} to {}", result, least, most));
    return result;
  }
  std::int64_t integer_or(const std::string& key, std::int64_t fallback, std::int64_t least, std::int64_t most) const {
    return has(key) ? integer(key, least, most) : fallback;
  }
  double positive_or(const std::string& key, double fallback) const {
    if (!has(key)) return fallback;
    double result = 0;
    try {
      result = at(key).as_real();
    } catch (const ValueError&) {
      fail(key, fmt::format("is {}, not a number", at(key).kind()));
    }
    if (!(result > 0) || !std::isfinite(result)) fail(key, fmt::format("{} is not positive", result));
    return result;
  }
  std::string text_or(const std::string& key, const std::string& fallback) const {
    if (!has(key)) return fallback;
    const auto* text = at(key).get_if<std::string>();
    if (text == nullptr) fail(key, fmt::format("is {}, not a text", at(key).kind()));
    return *text;
  }
  [[noreturn]] void fail(const std::string& key, std::string_view message) const {
    throw FormatError(fmt::format("{}: {}{}: {}", file_, prefix_, key, message));
  }

 private:
  const io::MetadataValue& at(const std::string& key) const {
    const auto found = metadata_.find(prefix_ + key);
    if (found == metadata_.end()) fail(key, "is missing");
    return found->second;
  }

  const io::Metadata& metadata_;
  std::string file_;
  std::string prefix_;
};

const Architecture& architecture_of(const io::Metadata& metadata, const std::string& path) {
  const std::string name = Fields(metadata, path, "general.").text_or("architecture", "");
  for (const Architecture& row : kArchitectures) {
    if (row.name == name) return row;
  }
  std::string known;
  for (const Architecture& row : kArchitectures) known += (known.empty() ? "" : ", ") + std::string(row.name);
  throw FormatError(
      fmt::format("{}: general.architecture: {} is not supported in GGUF files ({})", path, in_quotes(name), known));
}

DecoderConfig read_config(const Fields& fields, const Architecture& row, const io::TensorMap& tensors) {
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  DecoderConfig config;
  config.family = row.name;
  config.hidden = fields.integer("embedding_length", 1, kMost);
  config.context = fields.integer_or("context_length", 0, 1, INT64_MAX);
  config.norm.eps = fields.positive_or("attention.layer_norm_rms_epsilon", 1e-6);
  config.feed.size = fields.integer("feed_forward_length", 1, kMost);
  config.layers.resize(static_cast<std::size_t>(fields.integer("block_count", 1, 512)));
  AttentionConfig& attention = config.attention;
  attention.heads = fields.integer("attention.head_count", 1, 65'536);
  attention.kv_heads = fields.integer_or("attention.head_count_kv", attention.heads, 1, attention.heads);
  if (attention.heads % attention.kv_heads != 0) fields.fail("attention.head_count_kv", "does not divide the heads");
  attention.head_dim = fields.integer_or("attention.key_length", config.hidden / attention.heads, 1, 65'536);
  if (fields.integer_or("attention.value_length", attention.head_dim, 1, 65'536) != attention.head_dim) {
    fields.fail("attention.value_length", "differs from key_length");
  }
  attention.scale = 1 / std::sqrt(static_cast<double>(attention.head_dim));
  attention.bias = row.bias;
  attention.head_norm = row.head_norm;
  if (fields.integer_or("expert_count", 0, 0, 4096) > 0) fields.fail("expert_count", "experts are not supported");
  RotaryConfig rotary;
  rotary.dims = fields.integer_or("rope.dimension_count", attention.head_dim, 2, attention.head_dim);
  if (rotary.dims % 2 != 0) fields.fail("rope.dimension_count", "is odd");
  rotary.base = fields.positive_or("rope.freq_base", 10000);
  rotary.interleaved = row.interleaved;
  const std::string scaling = fields.text_or("rope.scaling.type", "none");
  if (scaling == "linear") {
    rotary.scaling = RotaryConfig::Scaling::linear;
    rotary.factor = fields.positive_or("rope.scaling.factor", 1);
  } else if (scaling != "none") {
    fields.fail("rope.scaling.type", fmt::format("{} is not supported", in_quotes(scaling)));
  }
  config.rotary = {rotary};
  config.tied = !tensors.contains("output.weight");
  return config;
}

// GGUF's names, and those of a Decoder.
constexpr std::pair<std::string_view, std::string_view> kLayerNames[] = {
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"}};
constexpr std::pair<std::string_view, std::string_view> kModelNames[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};

// "blk.3.attn_q.weight" to "model.layers.3.self_attn.q_proj.weight"; unknown names stay, and are then refused.
std::string published_name(const std::string& name) {
  constexpr std::string_view kBlock = "blk.";
  const std::size_t kind = name.rfind('.');
  if (kind == std::string::npos) return name;
  std::string start;
  std::string middle = name.substr(0, kind);
  const bool in_layer = middle.starts_with(kBlock);
  if (in_layer) {
    const std::size_t dot = middle.find('.', kBlock.size());
    if (dot == std::string::npos) return name;
    start = fmt::format("model.layers.{}.", middle.substr(kBlock.size(), dot - kBlock.size()));
    middle = middle.substr(dot + 1);
  }
  const auto search = [&](const auto& table) -> std::string {
    for (const auto& [ggml, published] : table) {
      if (ggml == middle) return start + std::string(published) + name.substr(kind);
    }
    return name;
  };
  return in_layer ? search(kLayerNames) : search(kModelNames);
}

}  // namespace

GgufModel open_gguf_model(const std::string& path) {
  const io::FileListing listing = io::list_tensors(path);
  const Architecture& row = architecture_of(listing.metadata, path);
  if (Fields(listing.metadata, path, "split.").integer_or("count", 1, 0, 65'535) > 1) {
    throw FormatError(
        fmt::format("{}: split.count: models in several files are not supported; merge them first", path));
  }
  GgufModel result;
  io::TensorMap tensors = io::load_weights(path);
  const auto embedding = tensors.find("token_embd.weight");
  if (embedding == tensors.end() || embedding->second.rank() != 2) {
    throw FormatError(fmt::format("{}: there is no tensor \"token_embd.weight\" of two dimensions", path));
  }
  result.config = read_config(Fields(listing.metadata, path, std::string(row.name) + "."), row, tensors);
  result.config.vocabulary = embedding->second.size(0);
  if (tensors.contains("rope_freqs.weight")) {
    throw FormatError(fmt::format("{}: tensor \"rope_freqs.weight\": scaled frequencies are not supported", path));
  }
  for (auto& [name, tensor] : tensors) result.tensors.emplace(published_name(name), std::move(tensor));
  return result;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
