// Cross-encoders: tiny random models of tests/data/rerank, made by tools/make_rerank_goldens.py, with what the package
// tokenizers makes of pairs, the logits of transformers and the scores of sentence-transformers.
#include <lockstep/models/rerank.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <lockstep/error.h>
#include <lockstep/io/weights.h>
#include <lockstep/models/embed_text.h>
#include <lockstep/ops.h>

#include "support/data.h"
#include "support/files.h"
#include "support/tensors.h"

namespace lockstep::models {
namespace {

using nlohmann::json;
using test::message_of;
using testing::HasSubstr;
using testing::TestWithParam;
using Ids = std::vector<std::int64_t>;

std::string folder_of(const std::string& name) {
  return (test::repository_data("rerank") / name).string();
}

json golden_of(const std::string& name) {
  std::ifstream file(folder_of(name) + "/golden.json");
  return json::parse(file);
}

text::TokenPair tokens_of(const json& one) {
  return {.ids = one.at("ids").get<Ids>(), .types = one.at("types").get<Ids>()};
}

class RerankGolden : public TestWithParam<std::string> {};

// As near to f64 as four times transformers' own f32 logits.
TEST_P(RerankGolden, LogitsAreThoseOfTransformers) {
  const auto model = load_language_model(folder_of(GetParam()));
  double ours = 0;
  double theirs = 0;
  for (const json& one : golden_of(GetParam()).at("cases")) {
    const auto exact = one.at("f64").get<std::vector<double>>();
    const auto f32 = one.at("f32").get<std::vector<double>>();
    const auto own = label_logits(*model, tokens_of(one)).to_vector<float>();
    ASSERT_EQ(own.size(), exact.size());
    EXPECT_EQ(label_count(*model), static_cast<std::int64_t>(exact.size()));
    for (std::size_t i = 0; i < exact.size(); ++i) {
      ours = std::max(ours, std::abs(static_cast<double>(own[i]) - exact[i]));
      theirs = std::max(theirs, std::abs(f32[i] - exact[i]));
    }
  }
  EXPECT_LE(ours, 4 * theirs);
}

TEST_P(RerankGolden, ScoresAreThoseOfSentenceTransformers) {
  const json golden = golden_of(GetParam());
  if (!golden.at("cases")[0].contains("score")) return;  // several labels
  const auto model = load_language_model(folder_of(GetParam()));
  const text::Tokenizer tokenizer = text::Tokenizer::load(folder_of(GetParam()));
  const RerankForm form = rerank_form_of(folder_of(GetParam()), *model);
  EXPECT_EQ(form.most_tokens, golden.at("most"));
  for (const json& one : golden.at("cases")) {
    const auto scores = rerank(*model, tokenizer, one.at("query").get<std::string>(), {one.at("document")}, form);
    EXPECT_NEAR(scores.at(0), one.at("score").get<double>(), 2e-6);
  }
}

TEST_P(RerankGolden, GivesTheSameBitsOnEveryDevice) {
  const json golden = golden_of(GetParam());
  std::vector<std::uint64_t> expected;
  for (const Device& device : test_devices()) {
    SCOPED_TRACE(device.to_string());
    const auto model = load_language_model(folder_of(GetParam()), device);
    std::vector<std::uint64_t> hashes;
    for (const json& one : golden.at("cases")) hashes.push_back(label_logits(*model, tokens_of(one), device).hash());
    if (expected.empty()) expected = hashes;
    EXPECT_EQ(hashes, expected);
  }
}

TEST_P(RerankGolden, StateHasThePublishedNames) {
  const auto model = load_language_model(folder_of(GetParam()));
  const io::TensorMap published = io::load_weights(folder_of(GetParam()) + "/model.safetensors");
  EXPECT_EQ(model->state_dict().size(), published.size());
  for (const auto& [key, tensor] : model->state_dict()) EXPECT_TRUE(published.contains(key)) << key;
}

INSTANTIATE_TEST_SUITE_P(Of, RerankGolden,
                         testing::Values("bert", "bert_labels", "distilbert", "modernbert", "qwen3", "roberta",
                                         "xlm_roberta"),
                         [](const auto& name) { return name.param; });

TEST(Rerank, TheBestComesFirst) {
  const std::string folder = folder_of("roberta");
  const auto model = load_language_model(folder);
  const text::Tokenizer tokenizer = text::Tokenizer::load(folder);
  RerankForm form = rerank_form_of(folder, *model);
  EXPECT_FALSE(form.sigmoid) << "the config names Identity";
  const std::vector<std::string> documents = {"A dog", "Cats eat fish.", "A dog"};
  const std::vector<float> scores = rerank(*model, tokenizer, "what do cats eat", documents, form);
  ASSERT_EQ(scores.size(), 3u);
  EXPECT_EQ(scores[0], scores[2]);
  form.sigmoid = true;
  const float one = rerank(*model, tokenizer, "what do cats eat", {"A dog"}, form).at(0);
  EXPECT_NEAR(one, 1 / (1 + std::exp(-scores[0])), 1e-6);
  EXPECT_TRUE(rerank(*model, tokenizer, "q", {}, form).empty());
  const float nan = std::nanf("");
  EXPECT_EQ(best_first({1, 3, nan, 3, 2}), (std::vector<std::size_t>{1, 3, 4, 0, 2}));
}

// Without a head for labels, or with another one than for scores.
TEST(Rerank, RefusesOtherModels) {
  const std::string lfm = (test::repository_data("language/models") / "lfm2").string();
  const auto other = load_language_model(lfm);
  EXPECT_EQ(label_count(*other), 0);
  EXPECT_THAT(message_of<ValueError>([&] { rerank_form_of(lfm, *other); }), HasSubstr("lfm2 has no head"));
  EXPECT_THAT(message_of<ValueError>([&] {
                label_logits(*other, {.ids = {1, 2}, .types = {}});
              }),
              HasSubstr("lfm2 has no head"));
  const auto labels = load_language_model(folder_of("bert_labels"));
  EXPECT_THAT(message_of<ValueError>([&] { rerank_form_of(folder_of("bert_labels"), *labels); }),
              HasSubstr("3 labels"));
  EXPECT_THROW(rerank_score(label_logits(*labels, {.ids = {1, 2}, .types = {}}), {}), ValueError);
}

TEST(Rerank, RefusesTokensThatMakeNoSense) {
  const std::string folder = folder_of("roberta");
  const auto model = load_language_model(folder);
  const text::Tokenizer tokenizer = text::Tokenizer::load(folder);
  const RerankForm form = rerank_form_of(folder, *model);
  EXPECT_THAT(message_of<ValueError>([&] { rerank_tokens(tokenizer, form, "", "a"); }),
              HasSubstr("query has no tokens"));
  EXPECT_THAT(message_of<ValueError>([&] { rerank_tokens(tokenizer, {.most_tokens = 4}, "a", "b"); }),
              HasSubstr("no room"));
  EXPECT_THROW(rerank_tokens(tokenizer, form, "\xff", "b"), ValueError);
  EXPECT_THAT(message_of<ValueError>([&] { label_logits(*model, {}); }), HasSubstr("no tokens"));
  EXPECT_THAT(message_of<ValueError>([&] { label_logits(*model, {.ids = Ids(49, 3), .types = {}}); }),
              HasSubstr("49 tokens, the model reads 48"));
  EXPECT_THAT(message_of<ValueError>([&] {
                label_logits(*model, {.ids = {3, 4}, .types = {0}});
              }),
              HasSubstr("1 types"));
  EXPECT_THAT(message_of<ValueError>([&] { label_logits(*model, {.ids = {3}, .types = {1}}); }),
              HasSubstr("type 1, the model knows 1 types"));
  const RerankForm half{.prompt = "{document} of {query"};
  EXPECT_THAT(message_of<ValueError>([&] { rerank_tokens(tokenizer, half, "a", "b"); }), HasSubstr("template"));
}

// Files as llama.cpp's converter writes them give the bits of the folders.
TEST(Rerank, GgufFilesGiveTheSameScores) {
  for (const std::string name : {"roberta", "modernbert", "qwen3"}) {
    SCOPED_TRACE(name);
    const std::string file = folder_of(name) + "/model.gguf";
    const auto model = load_language_model(file);
    const auto other = load_language_model(folder_of(name));
    const text::Tokenizer tokenizer = text::Tokenizer::load(file);
    const RerankForm form = rerank_form_of(file, *model);
    EXPECT_EQ(form.most_tokens, rerank_form_of(folder_of(name), *other).most_tokens);
    EXPECT_EQ(pooling_of(file, *model), pooling_of(folder_of(name), *other));
    for (const json& one : golden_of(name).at("cases")) {
      const Tensor logits = label_logits(*model, tokens_of(one));
      EXPECT_EQ(logits.select(0, 0).hash(), label_logits(*other, tokens_of(one)).select(0, 0).hash());
      if (form.difference) continue;
      EXPECT_EQ(
          rerank_tokens(tokenizer, form, one.at("query").get<std::string>(), one.at("document").get<std::string>()).ids,
          one.at("ids").get<Ids>());
    }
  }
}

// Of yes and no, no's row being zeros; and a template.
TEST(Rerank, GgufFilesMayAskForYesOrNo) {
  const std::string file = folder_of("qwen3") + "/model.gguf";
  const auto model = load_language_model(file);
  EXPECT_EQ(label_count(*model), 2);
  const RerankForm form = rerank_form_of(file, *model);
  EXPECT_TRUE(form.difference);
  const text::Tokenizer tokenizer = text::Tokenizer::load(file);
  const text::TokenPair tokens = rerank_tokens(tokenizer, form, "a", "b");
  EXPECT_EQ(tokens.ids, tokenizer.encode("Is this so? a: b\n", {.add_special_tokens = false}));
  const Tensor logits = label_logits(*model, tokens);
  EXPECT_EQ(rerank_score(logits, form), sigmoid(logits.select(0, 0) - logits.select(0, 1)).item<float>());
  EXPECT_EQ(rerank(*model, tokenizer, "a", {"b"}, form).at(0), rerank_score(logits, form));
}

TEST(Rerank, PromptsAreFilledInOnce) {
  const text::Tokenizer tokenizer = text::Tokenizer::load(folder_of("qwen3"));
  const RerankForm form{.prompt = "Q: {query} D: {document}."};
  const auto plain = [&](const std::string& text) { return tokenizer.encode(text, {.add_special_tokens = false}); };
  EXPECT_EQ(rerank_tokens(tokenizer, form, "{document}", "{query} b").ids, plain("Q: {document} D: {query} b."));
  EXPECT_THAT(
      message_of<ValueError>([&] { rerank_tokens(tokenizer, {.most_tokens = 3, .prompt = form.prompt}, "a", "b"); }),
      HasSubstr("the model reads 3"));
}

// Configs whose heads make no sense.
TEST(Rerank, RefusesConfigsThatMakeNoSense) {
  std::ifstream file(folder_of("modernbert") + "/config.json");
  const json whole = json::parse(file);
  const auto message = [&](const json& changes) {
    json changed = whole;
    changed.update(changes);
    return message_of<FormatError>([&] { create_language_model(changed.dump()); });
  };
  EXPECT_EQ(label_count(*create_language_model(whole.dump())), 1);
  EXPECT_THAT(message({{"classifier_pooling", "max"}}), HasSubstr("\"max\" is neither cls nor mean"));
  EXPECT_THAT(message({{"id2label", json::object()}}), HasSubstr("id2label"));
  EXPECT_THAT(message({{"architectures", {"NomicBertForSequenceClassification"}}, {"model_type", "nomic_bert"}}),
              HasSubstr("the head of \"NomicBertForSequenceClassification\" is not supported"));
  EXPECT_THAT(message({{"sentence_transformers", {{"activation_fn", "torch.nn.modules.activation.Tanh"}}}}),
              HasSubstr("Tanh"));
  // Two labels where the config names none.
  json two = whole;
  two.erase("id2label");
  EXPECT_EQ(label_count(*create_language_model(two.dump())), 2);
}

// An encoder with a head still gives vectors; a decoder with one is read as an encoder is, by its last token.
TEST(Rerank, ModelsWithAHeadGiveVectorsToo) {
  const auto bert = load_language_model(folder_of("bert"));
  EXPECT_EQ(pooling_of(folder_of("bert"), *bert), Pooling::mean);
  EXPECT_EQ(embed_text(*bert, {2, 5, 3}).numel(), 32);
  const auto qwen = load_language_model(folder_of("qwen3"));
  EXPECT_TRUE(qwen->encoder());
  EXPECT_EQ(pooling_of(folder_of("qwen3"), *qwen), Pooling::last);
  EXPECT_THROW(qwen->make_cache(), ValueError);
}

}  // namespace
}  // namespace lockstep::models
