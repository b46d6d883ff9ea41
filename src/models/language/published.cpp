#include "models/language/published.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/ops.h>

#include "io/json_fields.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

// Where a family's default is not what it reads without a field.
constexpr const char* kDefaults = R"({
"cohere":{"rope_theta":5e5},
"deepseek_v3":{"n_group":8,"topk_group":4,"n_shared_experts":1,"routed_scaling_factor":2.5},
"gemma":{"head_dim":256},
"gemma2":{"head_dim":256,"num_key_value_heads":4,"query_pre_attn_scalar":256,"sliding_window":4096,
"attn_logit_softcapping":50,"final_logit_softcapping":30},
"gemma3_text":{"vocab_size":262208,"num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,"rope_theta":1e6,
"query_pre_attn_scalar":256,"sliding_window":4096,"max_position_embeddings":131072},
"glm4":{"head_dim":128,"num_key_value_heads":2,"partial_rotary_factor":0.5,"attention_bias":true,
"rms_norm_eps":1.5625e-7},
"gpt_neox":{"rotary_pct":0.25},
"gpt_oss":{"head_dim":64,"num_experts_per_tok":4,"sliding_window":128,"rms_norm_eps":1e-5,"rope_theta":15e4},
"lfm2":{"norm_eps":1e-5,"rope_theta":1e6},
"mistral":{"num_key_value_heads":8,"sliding_window":4096},
"mixtral":{"num_key_value_heads":8,"num_experts_per_tok":2,"rms_norm_eps":1e-5,"rope_theta":1e6},
"nomic_bert":{"rotary_emb_base":1000},
"olmo2":{"rms_norm_eps":1e-5},
"phi":{"partial_rotary_factor":0.5},
"phi3":{"rms_norm_eps":1e-5},
"qwen2":{"max_window_layers":28},
"qwen3":{"max_window_layers":28,"head_dim":128},
"qwen3_next":{"head_dim":256,"num_key_value_heads":2,"partial_rotary_factor":0.25,"norm_topk_prob":true},
"smollm3":{"num_key_value_heads":4,"rope_theta":2e6},
"stablelm":{"partial_rotary_factor":0.25},
"starcoder2":{"num_key_value_heads":2}})";

// Keys that configs of nomic_bert had before the family was in transformers.
constexpr const char* kNomicKeys = R"({"n_embd":"hidden_size","n_head":"num_attention_heads",
"n_layer":"num_hidden_layers","n_inner":"intermediate_size","n_positions":"max_position_embeddings",
"layer_norm_epsilon":"layer_norm_eps","rotary_emb_fraction":"partial_rotary_factor"})";

/// Texts within tables, which need no addresses when the library is loaded.
struct OldEnding {
  char old[28], now[28];
};
// BERT's of TensorFlow, and Mamba's first.
constexpr OldEnding kOldEndings[] = {{"LayerNorm.gamma", "LayerNorm.weight"},
                                     {"LayerNorm.beta", "LayerNorm.bias"},
                                     {"backbone.embedding.weight", "backbone.embeddings.weight"}};

/// Where a file has a model that stands elsewhere for its family.
struct Move {
  char from[24], to[16];
};
// Encoders below the name of the model that they were saved with, decoders without the name of the one with a head,
// language models beside others.
constexpr Move kMoves[] = {{"", ""},
                           {"bert.", ""},
                           {"roberta.", ""},
                           {"distilbert.", ""},
                           {"model.", ""},
                           {"", "model."},
                           {"", "transformer."},
                           {"language_model.", ""},
                           {"model.language_model.", "model."}};

constexpr char kUnusedEndings[][56] = {"rotary_emb.inv_freq",
                                       "position_ids",
                                       ".attn.bias",
                                       ".attention.bias",
                                       "masked_bias",
                                       "coder.embed_tokens.weight",
                                       "EncDecAttention.relative_attention_bias.weight"};

std::string replaced(const std::string& name, std::size_t at, std::size_t count, const char* by) {
  return std::string(name).replace(at, count, by);
}

std::string with_new_ending(const std::string& name) {
  for (const OldEnding& ending : kOldEndings) {
    const std::string_view old(ending.old);
    if (name.ends_with(old)) return replaced(name, name.size() - old.size(), old.size(), ending.now);
  }
  return name;
}

// What files hold beside the weights that the config describes: heads that repeat the embedding, position numbers,
// masks, a pooler that takes no part in hidden states, layers that predict further tokens.
bool is_unused(const std::string& name, const io::TensorMap& tensors, const LanguageModel& model) {
  for (const char* ending : kUnusedEndings) {
    if (name.ends_with(ending)) return true;
  }
  if (name.starts_with("mtp.") || name.find(".layers.0.attn.v_lora.") != std::string::npos) return true;
  if ((name.starts_with("pooler.") || name.starts_with("roberta.pooler.")) && model.encoder()) return true;
  constexpr std::string_view kLayers = "model.layers.";
  if (name.starts_with(kLayers) &&
      tensors.contains(name.substr(0, name.find('.', kLayers.size()) + 1) + "eh_proj.weight")) {
    return true;
  }
  return name == "lm_head.weight" || name == "proj_out.weight";
}

// A bias that some quantisers write for each product.
bool adds_nothing(const std::string& name, const Tensor& tensor) {
  return name.ends_with(".bias") && tensor.numel() > 0 && amax(abs(tensor.to(DType::f32))).item<float>() == 0;
}

}  // namespace

nlohmann::json language_config(const nlohmann::json& document, const std::string& file) {
  std::string family = io::JsonFields(document, file).text("model_type");
  using Object = nlohmann::json::object_t;
  const Object& whole = document.get_ref<const Object&>();
  Object config = whole;
  const std::vector<std::string> known = language_families();
  const auto within = whole.find("text_config");
  if (within != whole.end() && within->second.is_object() &&
      std::find(known.begin(), known.end(), family) == known.end()) {
    config = within->second.get_ref<const Object&>();
    family = io::JsonFields(within->second, file + ": text_config").text("model_type");
    for (const char* key : {"tie_word_embeddings", "quantization_config", "quantization"}) {
      const auto above = whole.find(key);
      if (above != whole.end()) config.insert(*above);
    }
  }
  if (family == "nomic_bert") {
    const nlohmann::json keys = io::parse_json("", kNomicKeys);
    for (const auto& [old, key] : keys.get_ref<const Object&>()) {
      const auto found = config.find(old);
      if (found != config.end()) config.emplace(key.get_ref<const std::string&>(), found->second);
    }
  }
  const nlohmann::json defaults = io::parse_json("", kDefaults);
  const Object& rows = defaults.get_ref<const Object&>();
  const auto own = rows.find(family);
  if (own != rows.end()) config.merge(Object(own->second.get_ref<const Object&>()));
  return config;
}

void use_own_names(const LanguageModel& model, io::TensorMap& tensors) {
  std::set<std::string, std::less<>> wanted;
  for (const auto& [name, tensor] : model.state_dict()) wanted.insert(name);
  io::TensorMap given;
  for (const auto& [name, tensor] : tensors) given.emplace(with_new_ending(name), tensor);
  const Move* move = std::find_if(std::begin(kMoves), std::end(kMoves), [&](const Move& one) {
    const std::string_view to(one.to);
    return std::all_of(wanted.begin(), wanted.end(), [&](const std::string& name) {
      return given.contains(name.starts_with(to) ? replaced(name, 0, to.size(), one.from) : name);
    });
  });
  if (move == std::end(kMoves)) move = std::begin(kMoves);  // What is missing is said where they are loaded.
  const std::string_view from(move->from);
  tensors.clear();
  for (const auto& [name, tensor] : given) {
    const bool below = name.starts_with(from);
    std::string own = below ? replaced(name, 0, from.size(), move->to) : name;
    if (!wanted.contains(own)) {
      if (wanted.contains(name)) {
        own = name;
      } else if (!below || is_unused(name, given, model) || is_unused(own, given, model) ||
                 adds_nothing(name, tensor)) {
        continue;
      }
    }
    tensors.emplace(own, tensor);
  }
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
