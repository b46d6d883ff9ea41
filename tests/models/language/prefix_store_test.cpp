#include <lockstep/models/prefix_store.h>

#include <random>

#include <gtest/gtest.h>

#include <lockstep/error.h>
#include <lockstep/models/batch.h>
#include <lockstep/ops.h>

#include "support/data.h"
#include "support/files.h"

namespace lockstep::models {
namespace {

using Tokens = std::vector<std::int64_t>;
constexpr std::int64_t kPage = PrefixStore::kPage;

std::string small_model_path() {
  return (test::test_data("tinyllm") / "stories260K-f32.gguf").string();
}

Tokens random_tokens(std::size_t count, std::int64_t vocabulary, std::uint32_t seed) {
  std::mt19937 random(seed);
  Tokens tokens;
  while (tokens.size() < count) tokens.push_back(static_cast<std::int64_t>(random()) % vocabulary);
  return tokens;
}

Tensor ids_of(const Tokens& tokens, std::int64_t from = 0) {
  const auto length = static_cast<std::int64_t>(tokens.size()) - from;
  return Tensor::from(Tokens(tokens.begin() + from, tokens.end()), {1, length});
}

// Reads the text from `cache` on, in steps that end where pages do, and keeps it after each.
void read(const LanguageModel& model, const Tokens& tokens, LanguageCache& cache, PrefixStore& store) {
  while (cache.length() < static_cast<std::int64_t>(tokens.size())) {
    const auto left = static_cast<std::int64_t>(tokens.size()) - cache.length();
    const Tokens more(tokens.begin() + cache.length(), tokens.begin() + cache.length() + std::min(left, 2 * kPage));
    model.forward(ids_of(more), &cache).eval();
    store.put(tokens, cache);
  }
}

std::uint64_t hash_behind(const Tensor& logits, std::int64_t from) {
  return logits.narrow(1, from, logits.size(1) - from).hash();
}

// Keys and values of all kinds, states, and layers with both.
TEST(PrefixStore, WhatGoesOnFromPagesHasTheBitsOfWhatIsReadWhole) {
  const auto root = test::test_data("lm");
  LOCKSTEP_REQUIRE_DATA(root);
  for (const char* name : {"llama", "gemma3", "gpt_oss", "deepseek_v2", "lfm2", "qwen3_next", "mamba2", "rwkv4"}) {
    const auto model = load_language_model((root / name).string());
    PrefixStore store(*model, 64 << 20);
    Tokens tokens = random_tokens(150, model->vocabulary(), 3);
    const auto first = store.find(tokens);
    EXPECT_EQ(first->length(), 0) << name;
    read(*model, tokens, *first, store);
    tokens.resize(140);
    for (const std::int64_t more : random_tokens(30, model->vocabulary(), 4)) tokens.push_back(more);
    for (int times = 0; times < 2; ++times) {
      const auto cache = store.find(tokens);
      ASSERT_EQ(cache->length(), 2 * kPage) << name;
      const std::uint64_t rest = model->forward(ids_of(tokens, 2 * kPage), cache.get()).hash();
      EXPECT_EQ(rest, hash_behind(model->forward(ids_of(tokens)), 2 * kPage)) << name;
    }
    EXPECT_EQ(store.pages(), 2) << name;
  }
}

TEST(PrefixStore, RemembersWhatIsRoundedAsItIs) {
  LOCKSTEP_REQUIRE_DATA(small_model_path());
  for (const CacheType type : {CacheType::f16, CacheType::bf16}) {
    const auto model = load_language_model(small_model_path(), {}, {.cache = type});
    PrefixStore store(*model, 64 << 20);
    const Tokens tokens = random_tokens(100, model->vocabulary(), 5);
    const auto whole = model->make_cache();
    const std::uint64_t expected = hash_behind(model->forward(ids_of(tokens), whole.get()), kPage);
    store.put(tokens, *whole);
    const auto cache = store.find(tokens);
    ASSERT_EQ(cache->length(), kPage);
    EXPECT_EQ(model->forward(ids_of(tokens, kPage), cache.get()).hash(), expected);
  }
}

// An answer is drawn in a batch, and the next message goes on from there.
TEST(PrefixStore, TakesTextsOutOfBatches) {
  LOCKSTEP_REQUIRE_DATA(small_model_path());
  const auto model = load_language_model(small_model_path());
  PrefixStore store(*model, 64 << 20);
  StepBatch batch(*model);
  std::vector<Tokens> texts;
  std::vector<std::int64_t> numbers;
  for (std::uint32_t i = 0; i < 3; ++i) {
    texts.push_back(random_tokens(50 + 9 * i, model->vocabulary(), 10 + i));
    const auto cache = model->make_cache();
    model->forward(ids_of(texts.back()), cache.get()).eval();
    numbers.push_back(batch.join(*cache));
  }
  for (std::int64_t step = 0; step < 40; ++step) {
    std::vector<std::pair<std::int64_t, std::int64_t>> next;
    for (std::size_t i = 0; i < 3; ++i) {
      texts[i].push_back((step * 7 + static_cast<std::int64_t>(i)) % model->vocabulary());
      next.emplace_back(numbers[i], texts[i].back());
    }
    batch.step(next);
  }
  for (const std::size_t i : {1u, 0u, 2u}) {
    store.put(texts[i], *batch.cache_of(numbers[i]));
    batch.leave(numbers[i]);
  }
  for (Tokens& text : texts) {
    text.push_back(9);
    const auto cache = store.find(text);
    EXPECT_EQ(cache->length(), kPage);
    EXPECT_EQ(model->forward(ids_of(text, kPage), cache.get()).hash(),
              hash_behind(model->forward(ids_of(text)), kPage));
  }
}

TEST(PrefixStore, SharesPagesAndKeepsItsBound) {
  LOCKSTEP_REQUIRE_DATA(small_model_path());
  const auto model = load_language_model(small_model_path());
  const auto put = [&](PrefixStore& store, const Tokens& tokens) { read(*model, tokens, *store.find(tokens), store); };
  Tokens a = random_tokens(3 * kPage + 5, model->vocabulary(), 1);
  Tokens b = a;
  for (std::size_t i = static_cast<std::size_t>(2 * kPage); i < b.size(); ++i) b[i] = (b[i] + 1) % model->vocabulary();
  const Tokens c = random_tokens(kPage + 1, model->vocabulary(), 2);

  PrefixStore roomy(*model, 64 << 20);
  put(roomy, a);
  const std::int64_t page = roomy.bytes() / 3;
  EXPECT_EQ(roomy.pages(), 3);
  EXPECT_EQ(page, 2 * 5 * 4 * 8 * kPage * 4);  // keys and values, layers, heads of 8 elements of f32
  put(roomy, b);
  put(roomy, a);
  EXPECT_EQ(roomy.pages(), 4);
  EXPECT_EQ(roomy.bytes(), 4 * page);

  PrefixStore tight(*model, 3 * page);
  put(tight, a);
  put(tight, b);  // its last page takes the place of a's
  EXPECT_EQ(tight.pages(), 3);
  EXPECT_EQ(tight.find(a)->length(), 2 * kPage);
  EXPECT_EQ(tight.find(b)->length(), 3 * kPage);
  put(tight, c);  // b was used later than what only a had, but all of its beginning is used with it
  EXPECT_EQ(tight.find(c)->length(), kPage);
  EXPECT_EQ(tight.find(b)->length(), 2 * kPage);
  EXPECT_LE(tight.bytes(), 3 * page);

  PrefixStore none(*model, 0);
  put(none, a);
  EXPECT_EQ(none.pages(), 0);
  PrefixStore small(*model, page - 1);
  put(small, a);
  EXPECT_EQ(small.bytes(), 0);
  EXPECT_EQ(small.find(a)->length(), 0);
}

TEST(PrefixStore, NeverKnowsAllOfAText) {
  LOCKSTEP_REQUIRE_DATA(small_model_path());
  const auto model = load_language_model(small_model_path());
  PrefixStore store(*model, 64 << 20);
  const Tokens tokens = random_tokens(2 * kPage, model->vocabulary(), 1);
  read(*model, tokens, *store.find(tokens), store);
  EXPECT_EQ(store.pages(), 2);
  EXPECT_EQ(store.find(tokens)->length(), kPage);
  EXPECT_EQ(store.find(Tokens{})->length(), 0);
}

TEST(PrefixStore, RefusesWhatIsNotItsModels) {
  LOCKSTEP_REQUIRE_DATA(small_model_path());
  const auto model = load_language_model(small_model_path());
  const auto other = load_language_model(small_model_path());
  PrefixStore store(*model, 1 << 20);
  const Tokens tokens = random_tokens(70, model->vocabulary(), 1);
  const auto cache = other->make_cache();
  other->forward(ids_of(tokens), cache.get());
  EXPECT_THROW(store.put(tokens, *cache), ValueError);
  const auto own = model->make_cache();
  model->forward(ids_of(tokens), own.get());
  EXPECT_THROW(store.put(Tokens(69, 1), *own), ValueError);
  const auto two = model->make_cache();
  model->forward(cat({ids_of(tokens), ids_of(tokens)}, 0), two.get());
  EXPECT_THROW(store.put(tokens, *two), ValueError);
}

}  // namespace
}  // namespace lockstep::models
