// Tiny random models of tests/data/language/models, made by tools/make_language_goldens.py with the logits of
// transformers: families and rotary embeddings that the models of LOCKSTEP_TEST_DATA do not have.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/error.h>
#include <lockstep/io/safetensors.h>
#include <lockstep/io/weights.h>
#include <lockstep/models/batch.h>
#include <lockstep/ops.h>

#include "support/data.h"
#include "support/files.h"

namespace lockstep::models {
namespace {

using test::message_of;
using testing::HasSubstr;

std::string golden_folder(const char* name) {
  return (test::repository_data("language/models") / name).string();
}

double distance_of(const Tensor& a, const Tensor& b) {
  return amax(abs(a.to(DType::f64) - b.to(DType::f64))).item<double>();
}

// As near to f64 as four times transformers' own f32 logits, whole and with a cache.
void expect_golden(const char* name, const LanguageModel& model, const std::string& suffix = "") {
  const io::TensorMap golden = io::load_safetensors(golden_folder(name) + "/golden.safetensors").tensors;
  const Tensor& exact = golden.at("f64" + suffix);
  const Tensor ids = golden.at("ids").narrow(1, 0, exact.size(1));
  const Tensor ours = model.forward(ids);
  EXPECT_LE(distance_of(ours, exact), 4 * distance_of(golden.at("f32" + suffix), exact)) << name << suffix;
  for (const std::int64_t chunk : {1, 9}) {
    const auto cache = model.make_cache();
    std::vector<Tensor> parts;
    for (const Tensor& part : ids.split(chunk, 1)) parts.push_back(model.forward(part, cache.get()).eval());
    EXPECT_EQ(cat(parts, 1).hash(), ours.hash()) << name << suffix << " in chunks of " << chunk;
  }
}

TEST(GoldenModels, NewerRelatives) {
  for (const char* name : {"cohere2", "glm", "olmo3", "olmoe", "qwen2_moe"}) {
    const auto model = load_language_model(golden_folder(name));
    EXPECT_EQ(model->family(), name);
    expect_golden(name, *model);
  }
}

// EmbeddingGemma's attention: hidden states, of tokens that see what follows them, too.
TEST(GoldenModels, Gemma3InBothDirections) {
  const auto model = load_language_model(golden_folder("gemma3_both_ways"));
  EXPECT_TRUE(model->encoder());
  const io::TensorMap golden = io::load_safetensors(golden_folder("gemma3_both_ways") + "/golden.safetensors").tensors;
  const Tensor& exact = golden.at("f64");
  EXPECT_LE(distance_of(model->forward(golden.at("ids")), exact), 4 * distance_of(golden.at("f32"), exact));
}

TEST(GoldenModels, ConvolutionLayersOfLfm2) {
  const auto model = load_language_model(golden_folder("lfm2"));
  expect_golden("lfm2", *model);
  EXPECT_FALSE(model->make_cache()->truncates());
  const io::TensorMap published = io::load_weights(golden_folder("lfm2") + "/model.safetensors");
  for (const auto& [key, tensor] : model->state_dict()) EXPECT_TRUE(published.contains(key)) << key;
  const std::vector<std::vector<std::int64_t>> prompts = {{4, 8}, {15, 16, 23, 42}};
  const auto together = generate_together(*model, prompts, {.max_tokens = 5}, 2);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto alone = generate(*model, prompts[i], {.max_tokens = 5});
    for (std::size_t t = 0; t < alone.size(); ++t) {
      EXPECT_EQ(together[i][t].log_probability, alone[t].log_probability);
    }
  }
}

// By tools/make_rwkv7_golden.py, whose formulas were held against the package of RWKV's author.
TEST(GoldenModels, Rwkv7) {
  const auto model = load_language_model(golden_folder("rwkv7"));
  EXPECT_EQ(model->family(), "rwkv7");
  expect_golden("rwkv7", *model);
  io::TensorMap published = io::load_weights(golden_folder("rwkv7") + "/model.safetensors");
  EXPECT_EQ(model->state_dict().size(), published.size());
  for (const auto& [key, tensor] : model->state_dict()) EXPECT_TRUE(published.contains(key)) << key;
  const std::vector<std::vector<std::int64_t>> prompts = {{4, 8}, {15, 16, 23, 42}};
  const auto together = generate_together(*model, prompts, {.max_tokens = 5}, 2);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto alone = generate(*model, prompts[i], {.max_tokens = 5});
    for (std::size_t t = 0; t < alone.size(); ++t) {
      EXPECT_EQ(together[i][t].log_probability, alone[t].log_probability);
    }
  }
  // Older folders have the shares of the token before in one tensor.
  const test::TemporaryFolder folder;
  for (const char* layer : {"0", "1", "2"}) {
    const std::string path = std::string("model.layers.") + layer + ".attn.x_";
    std::vector<Tensor> shares;
    for (const char letter : {'r', 'w', 'k', 'v', 'a', 'g'}) {
      shares.push_back(published.at(path + letter).flatten());
      published.erase(path + letter);
    }
    published.emplace(path + "x", stack(shares, 0));
  }
  io::save_safetensors(folder.path("model.safetensors"), published);
  folder.write("config.json", test::read_whole_file(golden_folder("rwkv7") + "/config.json"));
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{3, 5, 8}, {1, 3});
  EXPECT_EQ(load_language_model(folder.path(""))->forward(ids).hash(), model->forward(ids).hash());
}

// The factors are those of the context that a model is loaded for, so that a text has the same bits however it is cut.
TEST(GoldenModels, LongRope) {
  const std::string folder = golden_folder("phi3_longrope");
  const auto usual = load_language_model(folder);
  EXPECT_EQ(usual->context(), 32);
  expect_golden("phi3_longrope", *usual, "_short");
  const auto longer = load_language_model(folder, {}, {.context = 100});
  EXPECT_EQ(longer->context(), 100);
  expect_golden("phi3_longrope", *longer);
  EXPECT_THAT(message_of<ValueError>([&] { load_language_model(folder, {}, {.context = 129}); }),
              HasSubstr("a context of 129 tokens is asked for, and the model was made for 128"));
}

TEST(GoldenModels, DynamicRope) {
  const std::string folder = golden_folder("llama_dynamic");
  expect_golden("llama_dynamic", *load_language_model(folder), "_short");
  expect_golden("llama_dynamic", *load_language_model(folder, {}, {.context = 40}));
}

TEST(GoldenModels, RefuseRotaryEmbeddingsThatMakeNoSense) {
  const auto refusal = [](const std::string& rope) {
    return message_of<FormatError>([&] {
      create_language_model(
          R"({"model_type": "phi3", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
              "num_attention_heads": 4, "max_position_embeddings": 64, "rope_scaling": {)" +
          rope + "}}");
    });
  };
  const std::string original = R"("original_max_position_embeddings": 32, "type": "longrope", )";
  EXPECT_EQ(refusal(original + R"("short_factor": [1, 2], "long_factor": [3, 4])"), "no error");
  EXPECT_THAT(refusal(R"("type": "longrope", "short_factor": [1, 2], "long_factor": [3, 4])"),
              HasSubstr("original_max_position_embeddings: is missing"));
  EXPECT_THAT(refusal(original + R"("short_factor": [1, 2], "long_factor": [3])"),
              HasSubstr("long_factor: has 1 factors, not 2"));
  EXPECT_THAT(refusal(original + R"("short_factor": [1, 0], "long_factor": [3, 4])"),
              HasSubstr("short_factor: holds what is no positive number"));
  EXPECT_THAT(refusal(R"("type": "dynamic")"), HasSubstr("factor"));
}

}  // namespace
}  // namespace lockstep::models
