// Folders as they are published: names of weights that differ with the program that saved them, weights that no config
// speaks of, and configs that leave out what transformers knows.
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/error.h>
#include <lockstep/io/pytorch.h>
#include <lockstep/io/safetensors.h>
#include <lockstep/models/language.h>
#include <lockstep/models/lora.h>
#include <lockstep/ops.h>

#include "support/files.h"

namespace lockstep::models {
namespace {

using test::message_of;
using testing::HasSubstr;

constexpr const char* kTinyGpt2 =
    R"({"model_type": "gpt2", "vocab_size": 32, "n_embd": 16, "n_positions": 16, "n_head": 2, "n_layer": 1})";
constexpr const char* kTinyQwen3 =
    R"({"model_type": "qwen3", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
        "num_attention_heads": 2, "head_dim": 8})";
constexpr const char* kTinyNeox =
    R"({"model_type": "gpt_neox", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
        "num_attention_heads": 2, "rotary_pct": 0.5})";
constexpr const char* kTinyBert =
    R"({"model_type": "bert", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
        "num_attention_heads": 2, "max_position_embeddings": 16, "architectures": ["BertForMaskedLM"]})";
constexpr const char* kTinyT5 =
    R"({"model_type": "t5", "vocab_size": 32, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2})";
constexpr const char* kTinyDeepSeek =
    R"({"model_type": "deepseek_v3", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24,
        "num_hidden_layers": 1, "num_attention_heads": 2, "moe_intermediate_size": 8, "n_routed_experts": 16,
        "num_experts_per_tok": 2, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8,
        "first_k_dense_replace": 0, "num_nextn_predict_layers": 1})";
constexpr const char* kTinyGemma3 =
    R"({"model_type": "gemma3_text", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8,
        "query_pre_attn_scalar": 8, "sliding_window": 4, "rope_scaling": {"rope_type": "linear", "factor": 8.0}})";

using RenameWeight = std::function<std::string(std::string)>;

std::string without_prefix(const std::string& prefix, const std::string& name) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

std::string with_word(std::string name, const std::string& word, const std::string& other) {
  const std::size_t at = name.find(word);
  return at == std::string::npos ? name : name.replace(at, word.size(), other);
}

/// A folder with a model's weights under other names (an empty one: not at all), and further ones.
void write_folder(const test::TemporaryFolder& folder, const LanguageModel& model, const RenameWeight& rename,
                  const std::vector<std::string>& further, const std::string& config) {
  io::TensorMap renamed;
  for (const auto& [name, tensor] : model.state_dict()) {
    if (const std::string other = rename(name); !other.empty()) renamed.emplace(other, tensor.clone());
  }
  for (const std::string& name : further) renamed.emplace(name, ones({2, 2}));
  io::save_safetensors(folder.path("model.safetensors"), renamed);
  folder.write("config.json", config);
}

std::uint64_t logits_hash(const LanguageModel& model) {
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{3, 5, 8, 13, 21, 30}, {1, 6});
  return (model.family() == "t5" ? model.forward_pair(ids, ids) : model.forward(ids)).hash();
}

/// A folder with other names holds the same model.
void expect_same(const char* config, const RenameWeight& rename, const std::vector<std::string>& further = {},
                 const std::string& published = {}) {
  const auto model = create_language_model(config);
  const test::TemporaryFolder folder;
  write_folder(folder, *model, rename, further, published.empty() ? config : published);
  EXPECT_EQ(logits_hash(*load_language_model(folder.path(""))), logits_hash(*model)) << config;
}

TEST(PublishedNames, OfModelsThatWereSavedByThemselves) {
  expect_same(kTinyGpt2, [](const std::string& name) { return without_prefix("transformer.", name); },
              {"h.0.attn.bias"});
  expect_same(kTinyQwen3, [](const std::string& name) { return without_prefix("model.", name); });
  expect_same(kTinyBert, [](const std::string& name) { return "bert." + name; },
              {"cls.predictions.bias", "bert.pooler.dense.weight"});
  // TensorFlow's words, as in bert-base-uncased.
  expect_same(kTinyBert, [](const std::string& name) {
    return "bert." +
           with_word(with_word(name, "LayerNorm.weight", "LayerNorm.gamma"), "LayerNorm.bias", "LayerNorm.beta");
  });
}

// As Qwen3-Embedding: what has lost its head gives hidden states. A head that is missing from a whole model does not.
TEST(PublishedNames, OfModelsWithoutAHead) {
  const RenameWeight headless = [](const std::string& name) {
    return name == "lm_head.weight" ? "" : without_prefix("model.", name);
  };
  const test::TemporaryFolder folder;
  write_folder(folder, *create_language_model(kTinyQwen3), headless, {}, kTinyQwen3);
  const auto model = load_language_model(folder.path(""));
  EXPECT_TRUE(model->encoder());
  EXPECT_EQ(model->forward(zeros({1, 3}, {.dtype = DType::i64})).shape(), (Shape{1, 3, 16}));
  const test::TemporaryFolder torn;
  write_folder(
      torn, *create_language_model(kTinyQwen3),
      [](const std::string& name) { return name == "lm_head.weight" ? "" : name; }, {}, kTinyQwen3);
  EXPECT_THAT(message_of<Error>([&] { load_language_model(torn.path("")); }), HasSubstr("missing     lm_head.weight"));
}

TEST(PublishedNames, LeaveOutWhatNoConfigSpeaksOf) {
  const RenameWeight same = [](const std::string& name) { return name; };
  expect_same(kTinyNeox, same,
              {"gpt_neox.layers.0.attention.bias", "gpt_neox.layers.0.attention.masked_bias",
               "gpt_neox.layers.0.attention.rotary_emb.inv_freq"});
  expect_same(kTinyT5, same, {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"});
  expect_same(kTinyDeepSeek, same,
              {"model.layers.1.eh_proj.weight", "model.layers.1.embed_tokens.weight",
               "model.layers.1.shared_head.norm.weight"});
  // A layer that the config has forgotten is no such layer.
  const test::TemporaryFolder folder;
  write_folder(folder, *create_language_model(kTinyQwen3), same, {"model.layers.1.input_layernorm.weight"}, kTinyQwen3);
  EXPECT_THAT(message_of<Error>([&] { load_language_model(folder.path("")); }),
              HasSubstr("unexpected  model.layers.1.input_layernorm.weight"));
}

// The part of Gemma 3's larger models that reads texts, by the names of transformers 4 and 5.
TEST(PublishedNames, OfModelsThatSeePicturesToo) {
  const std::string config =
      R"({"model_type": "gemma3", "vision_config": {}, "text_config": )" + std::string(kTinyGemma3) + "}";
  const std::vector<std::string> pictures = {"vision_tower.patch.weight", "multi_modal_projector.norm.weight"};
  expect_same(
      kTinyGemma3, [](const std::string& name) { return "language_model." + name; }, pictures, config);
  expect_same(
      kTinyGemma3, [](const std::string& name) { return "model.language_model." + without_prefix("model.", name); },
      {"model.vision_tower.patch.weight"}, config);
  // Saved, it is a model of texts.
  const test::TemporaryFolder folder;
  write_folder(
      folder, *create_language_model(kTinyGemma3), [](const std::string& name) { return "language_model." + name; },
      pictures, config);
  const auto model = load_language_model(folder.path(""));
  save_language_model(*model, folder.path(""), folder.path("saved"));
  EXPECT_EQ(logits_hash(*load_language_model(folder.path("saved"))), logits_hash(*model));
  EXPECT_THAT(test::read_whole_file(folder.path("saved/config.json")), HasSubstr(R"("model_type": "gemma3_text")"));
}

TEST(PublishedNames, OldFoldersHoldPickles) {
  const test::TemporaryFolder folder;
  const auto model = create_language_model(kTinyQwen3);
  io::save_pytorch(folder.path("pytorch_model.bin"), model->state_dict());
  folder.write("config.json", kTinyQwen3);
  EXPECT_EQ(logits_hash(*load_language_model(folder.path(""))), logits_hash(*model));
}

// What a config leaves out is what transformers would take.
TEST(PublishedConfigs, LeaveOutDefaults) {
  const auto same = [](const std::string& config, const std::string& left_out) {
    const auto with = create_language_model(with_word(config, "}", ", " + left_out + "}"));
    const auto without_it = create_language_model(config);
    without_it->load_state_dict(with->state_dict());
    EXPECT_EQ(logits_hash(*without_it), logits_hash(*with)) << left_out;
  };
  const auto sizes = [](const std::string& family) {
    return R"({"model_type": ")" + family +
           R"(", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 4,
               "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64})";
  };
  same(with_word(sizes("gemma2"), "}", R"(, "query_pre_attn_scalar": 8})"),
       R"("attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0)");
  same(sizes("smollm3"), R"("rope_theta": 2e6, "no_rope_layers": [1, 1, 1, 0])");
  same(sizes("phi"), R"("partial_rotary_factor": 0.5)");
  same(sizes("olmo2"), R"("rms_norm_eps": 1e-5)");
  same(sizes("stablelm"), R"("partial_rotary_factor": 0.25)");
  // Null says that there is none.
  const auto capped = create_language_model(with_word(sizes("gemma2"), "}", R"(, "query_pre_attn_scalar": 8})"));
  const auto open = create_language_model(
      with_word(sizes("gemma2"), "}", R"(, "query_pre_attn_scalar": 8, "final_logit_softcapping": null})"));
  open->load_state_dict(capped->state_dict());
  EXPECT_NE(logits_hash(*open), logits_hash(*capped));
}

TEST(PublishedConfigs, OfNomicHaveWordsOfTheirOwn) {
  const std::string usual =
      R"({"model_type": "nomic_bert", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24,
          "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 64})";
  const std::string own =
      R"({"model_type": "nomic_bert", "vocab_size": 32, "n_embd": 16, "n_inner": 24, "n_layer": 1, "n_head": 2,
          "n_positions": 64, "activation_function": "swiglu", "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0,
          "rotary_scaling_factor": null, "qkv_proj_bias": false, "mlp_fc1_bias": false, "mlp_fc2_bias": false})";
  const auto model = create_language_model(usual);
  const auto other = create_language_model(own);
  other->load_state_dict(model->state_dict());
  EXPECT_EQ(logits_hash(*other), logits_hash(*model));
  EXPECT_EQ(other->context(), 64);
  EXPECT_THAT(message_of<FormatError>([&] { create_language_model(with_word(own, "}", R"(, "num_experts": 8})")); }),
              HasSubstr("num_experts: is not supported"));
  EXPECT_THAT(message_of<FormatError>([&] {
                create_language_model(with_word(own, R"("mlp_fc1_bias": false)", R"("mlp_fc1_bias": true)"));
              }),
              HasSubstr("mlp_fc1_bias: is not supported"));
}

TEST(PublishedConfigs, AreRefusedWhereTheyAskForMore) {
  EXPECT_THAT(message_of<FormatError>([] {
                create_language_model(with_word(kTinyBert, "}", R"(, "position_embedding_type": "relative_key"})"));
              }),
              HasSubstr("position_embedding_type: only absolute is supported"));
  const std::string unknown = message_of<FormatError>([] { create_language_model(R"({"model_type": "gemma3n"})"); });
  EXPECT_THAT(unknown, HasSubstr("model_type: \"gemma3n\" is no family that is supported (bert, camembert, cohere"));
  for (const std::string& family : language_families()) EXPECT_THAT(unknown, HasSubstr(family));
}

}  // namespace
}  // namespace lockstep::models
