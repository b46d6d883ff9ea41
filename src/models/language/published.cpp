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

// What transformers takes where a config.json leaves it out, as far as families' readers take something else.
constexpr const char* kDefaults = R"({
"cohere":{"rope_theta":5e5},
"cohere2":{"sliding_window":4096},
"deepseek_v3":{"n_group":8,"topk_group":4,"n_shared_experts":1,"routed_scaling_factor":2.5,"first_k_dense_replace":3},
"gemma":{"head_dim":256},
"gemma2":{"head_dim":256,"num_key_value_heads":4,"query_pre_attn_scalar":256,"sliding_window":4096,
"attn_logit_softcapping":50,"final_logit_softcapping":30},
"gemma3_text":{"vocab_size":262208,"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":26,
"num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,"rope_theta":1e6,"query_pre_attn_scalar":256,
"sliding_window":4096,"max_position_embeddings":131072},
"glm":{"head_dim":128,"num_key_value_heads":2,"partial_rotary_factor":0.5,"attention_bias":true,
"rms_norm_eps":1.5625e-7},
"glm4":{"head_dim":128,"num_key_value_heads":2,"partial_rotary_factor":0.5,"attention_bias":true,
"rms_norm_eps":1.5625e-7},
"gpt_neox":{"rotary_pct":0.25},
"gpt_oss":{"head_dim":64,"num_experts_per_tok":4,"sliding_window":128,"rms_norm_eps":1e-5,"rope_theta":15e4,
"rope_scaling":{"rope_type":"yarn","factor":32,"original_max_position_embeddings":4096,"truncate":false}},
"lfm2":{"norm_eps":1e-5,"rope_theta":1e6},
"mistral":{"num_key_value_heads":8,"sliding_window":4096},
"mixtral":{"num_key_value_heads":8,"num_experts_per_tok":2,"rms_norm_eps":1e-5,"rope_theta":1e6},
"nomic_bert":{"rotary_emb_base":1000},
"olmo2":{"rms_norm_eps":1e-5},
"olmo3":{"rms_norm_eps":1e-5,"rope_theta":5e5,"sliding_window":4096},
"olmoe":{"rms_norm_eps":1e-5},
"phi":{"partial_rotary_factor":0.5},
"phi3":{"rms_norm_eps":1e-5},
"qwen3":{"head_dim":128},
"qwen3_next":{"head_dim":256,"num_key_value_heads":2,"partial_rotary_factor":0.25,"norm_topk_prob":true},
"smollm3":{"num_key_value_heads":4,"rope_theta":2e6},
"stablelm":{"partial_rotary_factor":0.25},
"starcoder2":{"num_key_value_heads":2}})";

/// Texts within tables, which need no addresses when the library is loaded.
struct OldEnding {
  char old[28], now[28];
};
// BERT's of TensorFlow, and Mamba's first.
constexpr OldEnding kOldEndings[] = {{"LayerNorm.gamma", "LayerNorm.weight"},
                                     {"LayerNorm.beta", "LayerNorm.bias"},
                                     {"backbone.embedding.weight", "backbone.embeddings.weight"}};

/// What stands in front of a model's names in files, and in front of ours.
struct Naming {
  char file[24], ours[16];
};
// Models that were saved inside of others, or by themselves.
constexpr Naming kNamings[] = {{"", ""},
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

using Names = std::set<std::string, std::less<>>;

std::string with_new_ending(std::string name) {
  for (const OldEnding& ending : kOldEndings) {
    const std::string_view old(ending.old);
    if (name.ends_with(old)) return name.replace(name.size() - old.size(), old.size(), ending.now);
  }
  return name;
}

// Whether it belongs to a layer behind the last one that predicts a further token (DeepSeek V3): these have a
// projection of their own.
bool predicts_further(const std::string& name, const io::TensorMap& tensors) {
  constexpr std::string_view kLayers = ".layers.";
  const std::size_t at = name.find(kLayers);
  if (at == std::string::npos) return false;
  return tensors.contains(name.substr(0, name.find('.', at + kLayers.size())) + ".eh_proj.weight");
}

// What files hold beside the weights that the config describes: heads that repeat the embedding, position numbers,
// masks, a pooler that takes no part in hidden states, layers that predict further tokens, a bias of T5's that its
// authors' program had and did not use, and the zeros that some quantisers write as the bias of each product.
bool is_unused(const std::string& name, const Tensor& tensor, const LanguageModel& model) {
  for (const char* ending : kUnusedEndings) {
    if (name.ends_with(ending)) return true;
  }
  if (name.starts_with("mtp.") || name.find(".layers.0.attn.v_lora.") != std::string::npos) return true;
  if ((name.starts_with("pooler.") || name.starts_with("roberta.pooler.")) && model.encoder()) return true;
  if (name.ends_with("lm_head.weight") || name == "proj_out.weight") return true;
  return name.ends_with(".bias") && tensor.numel() > 0 && amax(abs(tensor.to(DType::f32))).item<float>() == 0;
}

// All that is wanted, as it is named in one of the ways, and what stands beside it there; else everything as it is.
io::TensorMap named_as_wanted(const Names& wanted, io::TensorMap tensors) {
  for (const Naming& naming : kNamings) {
    io::TensorMap renamed;
    for (const auto& [name, tensor] : tensors) {
      if (wanted.contains(name)) {  // heads may stand beside what the others stand inside of
        renamed.emplace(name, tensor);
      } else if (name.starts_with(naming.file) && !predicts_further(name, tensors)) {
        renamed.emplace(naming.ours + with_new_ending(name.substr(std::string_view(naming.file).size())), tensor);
      }
    }
    const auto has = [&](const std::string& name) { return renamed.contains(name); };
    if (std::all_of(wanted.begin(), wanted.end(), has)) return renamed;
  }
  return tensors;
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
  const nlohmann::json defaults = io::parse_json("", kDefaults);
  const Object& rows = defaults.get_ref<const Object&>();
  const auto own = rows.find(family);
  if (own != rows.end()) config.merge(Object(own->second.get_ref<const Object&>()));
  return config;
}

void use_own_names(const LanguageModel& model, io::TensorMap& tensors) {
  Names wanted;
  for (const auto& [name, tensor] : model.state_dict()) wanted.insert(name);
  tensors = named_as_wanted(wanted, std::move(tensors));
  std::erase_if(tensors, [&](const auto& item) {
    return !wanted.contains(item.first) && is_unused(item.first, item.second, model);
  });
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
