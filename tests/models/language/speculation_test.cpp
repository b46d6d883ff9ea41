// Guessed tokens, kept caches: what they save is work, never a bit of the answer.
#include <lockstep/models/generate.h>

#include <gtest/gtest.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/text/tokenizer.h>

#include "support/data.h"
#include "support/files.h"

namespace lockstep::models {
namespace {

std::string tiny(const std::string& name) {
  return (test::test_data("tinyllm") / name).string();
}

void expect_same(const std::vector<SampledToken>& a, const std::vector<SampledToken>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].token, b[i].token) << i;
    EXPECT_EQ(a[i].log_probability, b[i].log_probability) << i;
  }
}

const std::vector<SamplingOptions> kSamplings = {
    {},
    {.temperature = 0.8, .top_p = 0.95, .seed = 5},
    {.temperature = 1.5, .seed = 6, .frequency_penalty = 0.3},
    {.temperature = 1, .seed = 7, .mirostat_tau = 3},
};

TEST(Speculation, GivesTheTokensOfPlainDecoding) {
  LOCKSTEP_REQUIRE_DATA(tiny("stories260K-f32.gguf"));
  const auto model = load_language_model(tiny("stories260K-f32.gguf"));
  const auto draft = load_language_model(tiny("stories260K-q4_0.gguf"));
  const text::Tokenizer tokenizer = text::Tokenizer::load(tiny("stories260K-f32.gguf"));
  const auto prompt = tokenizer.encode("Once upon a time, Tom and Tim saw a cat. The cat");
  for (const SamplingOptions& sampling : kSamplings) {
    const auto plain = generate(*model, prompt, {.sampling = sampling, .max_tokens = 60});
    for (const std::int64_t tokens : {1, 4, 7}) {
      SpeculationCounts counts;
      const auto drafted = generate(*model, prompt,
                                    {.sampling = sampling,
                                     .max_tokens = 60,
                                     .speculation = {.draft = draft.get(), .tokens = tokens},
                                     .counts = &counts});
      expect_same(drafted, plain);
      EXPECT_GT(counts.right, 0);
      EXPECT_LE(counts.right, counts.guessed);
      counts = {};
      expect_same(generate(*model, prompt,
                           {.sampling = sampling,
                            .max_tokens = 60,
                            .speculation = {.lookup = 3, .tokens = tokens},
                            .counts = &counts}),
                  plain);
      EXPECT_GT(counts.guessed, 0);
    }
  }
}

TEST(Speculation, EndsWherePlainDecodingEnds) {
  LOCKSTEP_REQUIRE_DATA(tiny("stories260K-f32.gguf"));
  const auto model = load_language_model(tiny("stories260K-f32.gguf"));
  const std::vector<std::int64_t> prompt = {1, 403, 407, 261, 378};
  const auto plain = generate(*model, prompt, {.max_tokens = 40});
  const std::int64_t end = plain[21].token;
  std::size_t first = 0;
  while (plain[first].token != end) ++first;
  GenerateOptions options{.max_tokens = 40, .end_tokens = {end}, .speculation = {.draft = model.get(), .tokens = 6}};
  expect_same(generate(*model, prompt, options), {plain.begin(), plain.begin() + static_cast<std::ptrdiff_t>(first)});
  options.end_tokens = {};
  for (const std::int64_t most : {1, 2, 9, 40}) {
    SpeculationCounts counts;
    options.max_tokens = most;
    options.counts = &counts;
    expect_same(generate(*model, prompt, options), {plain.begin(), plain.begin() + most});
    EXPECT_EQ(counts.right, counts.guessed);  // a model guesses itself
  }
  int calls = 0;
  options.max_tokens = 40;
  EXPECT_EQ(generate(*model, prompt, options, [&](const SampledToken&) { return ++calls < 8; }).size(), 8u);
  // Up to the end of the context.
  const std::vector<std::int64_t> longer(505, 261);
  options.counts = nullptr;
  expect_same(generate(*model, longer, options), generate(*model, longer, {.max_tokens = 40}));
}

TEST(Speculation, RefusesModelsThatCannotGoBack) {
  const auto root = test::test_data("lm");
  LOCKSTEP_REQUIRE_DATA(root);
  const auto load = [&](const char* name) { return load_language_model((root / name).string()); };
  const auto mamba = load("mamba");
  const auto llama = load("llama");
  EXPECT_THROW(generate(*mamba, {1, 2}, {.max_tokens = 4, .speculation = {.lookup = 2}}), ValueError);
  EXPECT_THROW(generate(*llama, {1, 2}, {.max_tokens = 4, .speculation = {.draft = mamba.get()}}), ValueError);
  EXPECT_THROW(generate(*llama, {1, 2}, {.max_tokens = 4, .speculation = {.lookup = -1}}), ValueError);
  EXPECT_THROW(generate(*llama, {1, 2}, {.max_tokens = 4, .speculation = {.lookup = 2, .tokens = 0}}), ValueError);
}

// Keys and values, sliding windows, latent attention: a cache that went back gives the bits of one that did not go
// there.
TEST(LanguageCache, ForgetsToTheBit) {
  const auto root = test::test_data("lm");
  LOCKSTEP_REQUIRE_DATA(root);
  const NoGrad no_grad;
  for (const std::string name : {"llama", "gemma3", "deepseek_v3", "gpt2", "gpt_oss"}) {
    const auto model = load_language_model((root / name).string());
    const auto ids = [](std::int64_t first, std::int64_t last) {
      return arange(static_cast<double>(first), static_cast<double>(last), 1, {.dtype = DType::i64}).unsqueeze(0);
    };
    const auto straight = model->make_cache();
    const auto back = model->make_cache();
    model->forward(ids(3, 23), straight.get());
    model->forward(ids(3, 23), back.get());
    const auto copy = back->clone();
    model->forward(ids(30, 41), back.get());
    EXPECT_TRUE(back->truncates());
    EXPECT_THROW(back->truncate(32), ValueError);
    EXPECT_THROW(back->truncate(-1), ValueError);
    back->truncate(20);
    EXPECT_EQ(back->length(), 20);
    EXPECT_EQ(copy->length(), 20);
    const std::uint64_t expected = model->forward(ids(23, 30), straight.get()).hash();
    EXPECT_EQ(model->forward(ids(23, 30), back.get()).hash(), expected) << name;
    EXPECT_EQ(model->forward(ids(23, 30), copy.get()).hash(), expected) << name;
    back->truncate(0);
    const std::uint64_t anew = model->forward(ids(3, 9), back.get()).hash();
    EXPECT_EQ(model->forward(ids(3, 9)).hash(), anew) << name;
  }
  const auto rwkv = load_language_model((root / "rwkv4").string());
  EXPECT_FALSE(rwkv->make_cache()->truncates());
  EXPECT_THROW(rwkv->make_cache()->truncate(0), ValueError);
}

TEST(PromptCache, ReadsOnlyWhatIsNew) {
  const auto root = test::test_data("lm");
  LOCKSTEP_REQUIRE_DATA(root);
  for (const std::string name : {"llama", "mamba"}) {
    const auto model = load_language_model((root / name).string());
    PromptCache cache(*model);
    GenerateOptions kept{.max_tokens = 6, .cache = &cache};
    std::vector<std::int64_t> text = {5, 9, 2, 7};
    for (int turn = 0; turn < 3; ++turn) {
      const auto answer = generate(*model, text, kept);
      expect_same(answer, generate(*model, text, {.max_tokens = 6}));
      for (const SampledToken& token : answer) text.push_back(token.token);
      EXPECT_EQ(cache.known(text, 1), text.size() - 1);  // the last token has not been read
      text.insert(text.end(), {11, 12, 13});
    }
    // Another text begins elsewhere; where there is a state, it is read anew.
    const std::vector<std::int64_t> other = {5, 9, 3, 7};
    EXPECT_EQ(cache.known(other, 1), name == "llama" ? 2u : 0u);
    expect_same(generate(*model, other, kept), generate(*model, other, {.max_tokens = 6}));
    expect_same(generate(*model, other, kept), generate(*model, other, {.max_tokens = 6}));
  }
  const auto one = load_language_model((root / "llama").string());
  const auto two = load_language_model((root / "llama").string());
  PromptCache of_one(*one);
  EXPECT_THROW(generate(*two, {1}, {.cache = &of_one}), ValueError);
  EXPECT_THROW(of_one.logits({}, 1, {}), ValueError);
}

TEST(PromptCache, LooksBehindATokenThatNobodyKnowsYet) {
  const auto root = test::test_data("lm");
  LOCKSTEP_REQUIRE_DATA(root);
  const auto model = load_language_model((root / "llama").string());
  PromptCache cache(*model);
  EXPECT_FALSE(cache.looks_ahead());
  std::vector<std::int64_t> text = {5, 9, 2, 7};
  Tensor next = argmax(cache.logits(text, 1, {}), -1);
  for (int i = 0; i < 4; ++i) {
    const Tensor behind = cache.logits_behind(next);
    text.push_back(next.item<std::int64_t>());
    cache.add(text.back());
    EXPECT_EQ(behind.hash(), PromptCache(*model).logits(text, 1, {}).hash());
    next = argmax(behind, -1);
  }
  // What it is not told was never there.
  cache.logits_behind(next);
  text.push_back(3);
  EXPECT_EQ(cache.logits(text, 2, {}).hash(), PromptCache(*model).logits(text, 2, {}).hash());
  const auto mamba = load_language_model((root / "mamba").string());
  PromptCache of_state(*mamba);
  of_state.logits(text, 1, {});
  EXPECT_FALSE(of_state.looks_ahead());
  EXPECT_THROW(of_state.logits_behind(next), ValueError);
}

}  // namespace
}  // namespace lockstep::models
