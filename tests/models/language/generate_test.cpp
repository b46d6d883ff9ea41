#include <lockstep/models/generate.h>

#include <cmath>
#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>

#include "support/data.h"
#include "support/files.h"

namespace lockstep::models {
namespace {

const std::vector<float> kLogits = {1, 3, 2, 3, -100};

TEST(Sample, TakesTheFirstOfTheMostProbable) {
  const SampledToken token = sample(kLogits, 0, {});
  EXPECT_EQ(token.token, 1);
  EXPECT_NEAR(token.log_probability, 3 - std::log(std::exp(1) + 2 * std::exp(3) + std::exp(2)), 1e-6);
}

TEST(Sample, DependsOnSeedAndPositionAlone) {
  std::map<std::int64_t, int> counts;
  bool differs = false;
  for (std::int64_t position = 0; position < 4000; ++position) {
    const SamplingOptions options{.temperature = 1, .seed = 7};
    const SampledToken token = sample(kLogits, position, options);
    EXPECT_EQ(sample(kLogits, position, options).token, token.token);
    differs = differs || sample(kLogits, position, {.temperature = 1, .seed = 8}).token != token.token;
    ++counts[token.token];
  }
  EXPECT_TRUE(differs);
  const double total = std::exp(1) + 2 * std::exp(3) + std::exp(2);
  for (std::size_t i = 0; i < 4; ++i) {
    const double expected = 4000 * std::exp(static_cast<double>(kLogits[i])) / total;
    EXPECT_NEAR(counts[static_cast<std::int64_t>(i)], expected, 5 * std::sqrt(expected)) << i;
  }
  EXPECT_EQ(counts[4], 0);
}

TEST(Sample, KeepsOnlyWhatTheOptionsAllow) {
  const auto seen = [](SamplingOptions options) {
    options.temperature = 5;
    std::map<std::int64_t, int> counts;
    for (std::int64_t position = 0; position < 500; ++position) ++counts[sample(kLogits, position, options).token];
    std::vector<std::int64_t> tokens;
    for (const auto& [token, count] : counts) tokens.push_back(token);
    return tokens;
  };
  EXPECT_EQ(seen({.top_k = 2}), (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(seen({.top_k = 3}), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(seen({.top_p = 0.3}), (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(seen({.top_p = 0.01}), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(seen({.min_p = 0.75}), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(seen({.min_p = 1}), (std::vector<std::int64_t>{1, 3}));
}

TEST(Sample, RefusesWhatMakesNoSense) {
  EXPECT_THROW(sample(kLogits, 0, {.temperature = -1}), ValueError);
  EXPECT_THROW(sample(kLogits, 0, {.temperature = NAN}), ValueError);
  EXPECT_THROW(sample(kLogits, 0, {.top_k = -1}), ValueError);
  EXPECT_THROW(sample(kLogits, 0, {.top_p = 0}), ValueError);
  EXPECT_THROW(sample(kLogits, 0, {.min_p = 2}), ValueError);
  EXPECT_THROW(sample({}, 0, {}), ValueError);
  EXPECT_THROW(sample(std::vector<float>{1, NAN}, 0, {}), ValueError);
}

// The greedy tokens of llama2.c.
TEST(Generate, ContinuesStoriesTokenByToken) {
  const auto root = test::test_data("tinyllm");
  LOCKSTEP_REQUIRE_DATA(root);
  for (const std::string name : {"greedy_once_upon", "greedy_tom"}) {
    const auto golden = nlohmann::json::parse(test::read_whole_file(root / (name + ".json")));
    const auto prompt = golden.at("prompt_ids_with_bos").get<std::vector<std::int64_t>>();
    const auto expected = golden.at("greedy_continuation_ids_200").get<std::vector<std::int64_t>>();
    const auto model = load_language_model((root / "stories260K-f32.gguf").string());
    std::vector<std::int64_t> tokens;
    for (const SampledToken& token : generate(*model, prompt, {.max_tokens = 200})) tokens.push_back(token.token);
    EXPECT_EQ(tokens, expected) << name;
  }
}

}  // namespace
}  // namespace lockstep::models
