// Folders as they were published: the names and fields of before, models within others, and what is not written.
#include <filesystem>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>
#include <lockstep/io/safetensors.h>
#include <lockstep/io/weights.h>
#include <lockstep/models/language.h>
#include <lockstep/models/lora.h>
#include <lockstep/ops.h>

#include "support/data.h"
#include "support/files.h"

namespace lockstep::models {
namespace {

using nlohmann::json;
using test::message_of;
using testing::HasSubstr;

/// A folder of the random models, in another form.
class Published {
 public:
  explicit Published(const std::string& name)
      : source_(test::test_data("lm") / name),
        config(json::parse(test::read_whole_file(source_ / "config.json"))),
        tensors(io::load_weights((source_ / "model.safetensors").string())) {}

  Published& rename(const std::function<std::string(const std::string& name)>& name_of) {
    io::TensorMap result;
    for (const auto& [name, tensor] : tensors) {
      const std::string now = name_of(name);
      if (!now.empty()) result.emplace(now, tensor);
    }
    tensors = result;
    return *this;
  }
  Published& without_prefix(const std::string& prefix) {
    return rename(
        [&](const std::string& name) { return name.starts_with(prefix) ? name.substr(prefix.size()) : std::string(); });
  }
  Published& add(const std::string& name, const Tensor& tensor) {
    tensors.insert_or_assign(name, tensor);
    return *this;
  }
  std::uint64_t hash() const {
    const test::TemporaryFolder folder;
    write(folder);
    return hash_of(folder.path(""));
  }
  void write(const test::TemporaryFolder& folder) const {
    folder.write("config.json", config.dump());
    io::save_safetensors(folder.path("model.safetensors"), tensors);
  }
  std::uint64_t own_hash() const { return hash_of(source_.string()); }
  static std::uint64_t hash_of(const std::string& path) {
    const auto model = load_language_model(path);
    const Tensor ids = Tensor::from(std::vector<std::int64_t>{7, 5, 9, 200, 31, 8, 8, 77, 3, 5}, {1, 10});
    return (model->family() == "t5" ? model->forward_pair(ids, ids) : model->forward(ids)).hash();
  }

 private:
  std::filesystem::path source_;

 public:
  json config;
  io::TensorMap tensors;
};

std::string with(std::string name, const std::string& old, const std::string& now) {
  if (const auto at = name.find(old); at != std::string::npos) name.replace(at, old.size(), now);
  return name;
}

TEST(PublishedFolders, NamesOfBefore) {
  LOCKSTEP_REQUIRE_DATA(test::test_data("lm"));
  Published gpt2("gpt2");  // as openai-community/gpt2: with masks
  gpt2.without_prefix("transformer.").add("h.0.attn.bias", ones({1, 1, 8, 8}));
  EXPECT_EQ(gpt2.hash(), gpt2.own_hash());

  Published bert("bert");  // as bert-base-uncased
  bert.rename([](const std::string& name) {
    return "bert." + with(with(name, "LayerNorm.weight", "LayerNorm.gamma"), "LayerNorm.bias", "LayerNorm.beta");
  });
  bert.add("cls.predictions.bias", ones({256})).add("bert.pooler.dense.weight", ones({64, 64}));
  EXPECT_EQ(bert.hash(), bert.own_hash());

  Published mamba("mamba");
  mamba.rename([](const std::string& name) { return with(name, "embeddings.", "embedding."); });
  EXPECT_EQ(mamba.hash(), mamba.own_hash());
}

TEST(PublishedFolders, DecodersWithoutAHead) {
  LOCKSTEP_REQUIRE_DATA(test::test_data("lm"));
  Published qwen3("qwen3");  // as Qwen3-Embedding
  qwen3.config["tie_word_embeddings"] = true;
  const std::uint64_t wanted = qwen3.hash();
  EXPECT_EQ(qwen3.without_prefix("model.").hash(), wanted);
}

TEST(PublishedFolders, WhatTakesNoPart) {
  LOCKSTEP_REQUIRE_DATA(test::test_data("lm"));
  Published pythia("gptneox");
  pythia.add("gpt_neox.layers.0.attention.bias", ones({1, 1, 8, 8}, {.dtype = DType::u8}))
      .add("gpt_neox.layers.0.attention.masked_bias", full({}, -1e9))
      .add("gpt_neox.layers.0.attention.rotary_emb.inv_freq", ones({4}));
  EXPECT_EQ(pythia.hash(), pythia.own_hash());

  Published t5("t5");
  t5.add("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight", ones({32, 4}));
  EXPECT_EQ(t5.hash(), t5.own_hash());

  Published deepseek("deepseek_v3");  // whose last layer predicts a further token
  const std::string last = "model.layers." + std::to_string(deepseek.config.at("num_hidden_layers").get<int>());
  deepseek.add(last + ".eh_proj.weight", ones({4, 8})).add(last + ".input_layernorm.weight", ones({4}));
  EXPECT_EQ(deepseek.hash(), deepseek.own_hash());

  Published llama("llama");  // quantisers write a bias for each product
  const std::string bias = "model.layers.0.self_attn.q_proj.bias";
  EXPECT_EQ(llama.add(bias, zeros({64})).hash(), llama.own_hash());
  llama.add(bias, ones({64}));
  EXPECT_THAT(message_of<ValueError>([&] { llama.hash(); }), HasSubstr(bias));
}

TEST(PublishedFolders, LanguageModelsBesideOthers) {
  LOCKSTEP_REQUIRE_DATA(test::test_data("lm"));
  const auto composed = [](const char* name, const char* family,
                           const std::function<std::string(std::string)>& name_of) {
    Published model(name);
    model.config = {{"model_type", family}, {"text_config", model.config}, {"vision_config", json::object()}};
    return model.rename(name_of).add("vision_tower.layer.weight", ones({3})).add("multi_modal_projector.w", ones({3}));
  };
  const auto old_names = [](const std::string& name) { return "language_model." + name; };
  const auto new_names = [](const std::string& name) { return with(name, "model.", "model.language_model."); };
  for (const auto& [name, family] : {std::pair("gemma3", "gemma3"), std::pair("mistral", "mistral3")}) {
    for (const auto& name_of : std::initializer_list<std::function<std::string(std::string)>>{old_names, new_names}) {
      const Published model = composed(name, family, name_of);
      EXPECT_EQ(model.hash(), model.own_hash()) << family;
    }
  }
  EXPECT_THAT(message_of<FormatError>(
                  [] { create_language_model(R"({"model_type": "new", "text_config": {"model_type": "newer"}})"); }),
              HasSubstr("newer"));
}

TEST(PublishedFolders, ConfigOfNomicBertBeforeTransformersHadIt) {
  LOCKSTEP_REQUIRE_DATA(test::test_data("lm"));
  Published nomic("nomic_bert");
  const json& own = nomic.config;
  nomic.config = {{"model_type", "nomic_bert"},
                  {"n_embd", own.at("hidden_size")},
                  {"n_head", own.at("num_attention_heads")},
                  {"n_layer", own.at("num_hidden_layers")},
                  {"n_inner", own.at("intermediate_size")},
                  {"n_positions", own.at("max_position_embeddings")},
                  {"vocab_size", own.at("vocab_size")},
                  {"layer_norm_epsilon", own.at("layer_norm_eps")},
                  {"activation_function", "swiglu"},
                  {"rotary_emb_base", 1000},
                  {"rotary_emb_fraction", 1.0}};
  EXPECT_EQ(nomic.hash(), nomic.own_hash());
  nomic.config["activation_function"] = "gelu";
  EXPECT_THAT(message_of<FormatError>([&] { nomic.hash(); }), HasSubstr("activation_function"));
}

// Random models have transformers' defaults in these fields (held against transformers 5.24 with each field left out).
TEST(PublishedFolders, FieldsThatAreLeftOut) {
  LOCKSTEP_REQUIRE_DATA(test::test_data("lm"));
  for (const char* name : {"cohere", "gemma3", "glm4", "gptneox", "lfm2", "mixtral", "nomic_bert", "phi", "qwen3_next",
                           "smollm3", "stablelm"}) {
    Published model(name);
    model.config.erase("rope_parameters");
    EXPECT_EQ(model.hash(), model.own_hash()) << name;
  }
  for (const auto& [name, field] :
       {std::pair("deepseek_v3", "routed_scaling_factor"), std::pair("gemma2", "attn_logit_softcapping"),
        std::pair("gemma2", "final_logit_softcapping"), std::pair("glm4", "num_key_value_heads"),
        std::pair("gpt_oss", "rms_norm_eps"), std::pair("phi3", "rms_norm_eps"),
        std::pair("qwen3_next", "norm_topk_prob"), std::pair("starcoder2", "num_key_value_heads")}) {
    Published model(name);
    ASSERT_EQ(model.config.erase(field), 1) << name;
    EXPECT_EQ(model.hash(), model.own_hash()) << name << " " << field;
  }
  // Every fourth layer of SmolLM 3 has no positions.
  Published smollm("smollm3");
  const auto hash_with = [&](const json& uses, int interval) {
    smollm.config["no_rope_layers"] = uses;
    smollm.config["no_rope_layer_interval"] = interval;
    return smollm.hash();
  };
  json every_second = json::array();
  for (std::size_t i = 1; i <= smollm.config.at("num_hidden_layers").get<std::size_t>(); ++i)
    every_second.push_back(i % 2 == 0 ? 0 : 1);
  EXPECT_EQ(hash_with(nullptr, 2), hash_with(every_second, 4));
}

TEST(PublishedFolders, PositionsOfTextAloneAreOrdinaryOnes) {
  LOCKSTEP_REQUIRE_DATA(test::test_data("lm"));
  Published llama("llama");
  llama.config.erase("rope_parameters");
  llama.config["rope_theta"] = 10000;
  llama.config["rope_scaling"] = {{"type", "mrope"}, {"mrope_section", {2, 3, 3}}};
  EXPECT_EQ(llama.hash(), llama.own_hash());
}

}  // namespace
}  // namespace lockstep::models
