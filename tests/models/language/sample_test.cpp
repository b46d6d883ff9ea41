#include <lockstep/models/generate.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>

#include "kernels/scalar.h"
#include "support/data.h"
#include "support/files.h"

namespace lockstep::models {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();
const std::vector<float> kFive = {1, 3, 2, 3, -1};

nlohmann::json thinned() {
  return nlohmann::json::parse(test::read_whole_file(test::repository_data("language/generation.json"))).at("thinned");
}

std::vector<std::int64_t> drawn_tokens(const std::vector<float>& logits, const SamplingOptions& options, int draws) {
  std::map<std::int64_t, int> counts;
  for (int position = 0; position < draws; ++position) ++counts[sample(logits, position, options).token];
  std::vector<std::int64_t> tokens;
  for (const auto& [token, count] : counts) tokens.push_back(token);
  return tokens;
}

TEST(Sampler, TypicalSamplingKeepsWhatTransformersKeeps) {
  for (const auto& row : thinned()) {
    const auto logits = row.at("logits").get<std::vector<float>>();
    for (const auto& [name, mass] : {std::pair{"typical_0.4", 0.4}, {"typical_0.8", 0.8}}) {
      const auto kept = row.at(name).get<std::vector<std::int64_t>>();
      const auto drawn = drawn_tokens(logits, {.temperature = 1, .typical_p = mass}, 3000);
      for (const std::int64_t token : drawn) EXPECT_NE(std::find(kept.begin(), kept.end(), token), kept.end()) << token;
      // Every kept one that is likely at all is drawn.
      double all = 0;
      for (const std::int64_t token : kept)
        all += std::exp(static_cast<double>(logits[static_cast<std::size_t>(token)]));
      for (const std::int64_t token : kept) {
        const double p = std::exp(static_cast<double>(logits[static_cast<std::size_t>(token)])) / all;
        EXPECT_TRUE(p < 0.01 || std::find(drawn.begin(), drawn.end(), token) != drawn.end()) << token;
      }
    }
  }
}

TEST(Sampler, LogProbabilityIsByExponentialsAddedInOrder) {
  std::vector<float> logits(20'003);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = i % 11 == 5 ? kHidden : static_cast<float>(i * 7919 % 4001) * 0.013f - 26.0f;
  }
  logits[777] = 27.5f;
  double total = 0;
  for (const float logit : logits) total += scalar::ls_exp(static_cast<double>(logit) - 27.5);
  EXPECT_GT(total, 1.0);
  const SampledToken token = sample(logits, 0, {});
  EXPECT_EQ(token.token, 777);
  EXPECT_EQ(token.log_probability, static_cast<float>(-scalar::ls_log(total)));
}

TEST(Sampler, RepetitionPenaltyIsThatOfTransformers) {
  for (const auto& row : thinned()) {
    const auto logits = row.at("logits").get<std::vector<float>>();
    const auto expected = row.at("repetition_1.3").get<std::vector<float>>();
    const auto seen = row.at("seen").get<std::vector<std::int64_t>>();
    const auto best = std::max_element(expected.begin(), expected.end()) - expected.begin();
    const SampledToken token = Sampler({.repetition_penalty = 1.3}, seen).draw(logits, 0);
    EXPECT_EQ(token.token, best);
    // What is drawn follows the softmax of the penalised logits.
    std::vector<double> counts(logits.size());
    constexpr int kDraws = 2000;
    for (int i = 0; i < kDraws; ++i) {
      ++counts[static_cast<std::size_t>(
          Sampler({.temperature = 1, .repetition_penalty = 1.3}, seen).draw(logits, i).token)];
    }
    double all = 0;
    for (const float logit : expected) all += std::exp(static_cast<double>(logit));
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double mean = kDraws * std::exp(static_cast<double>(expected[i])) / all;
      EXPECT_NEAR(counts[i], mean, 5 * std::sqrt(mean) + 1) << i;
    }
  }
}

TEST(Sampler, PresenceAndFrequencyCountWhatWasDrawnAlone) {
  const std::vector<std::int64_t> prompt = {1, 1, 1, 3};
  Sampler presence({.presence_penalty = 1.5}, prompt);
  std::vector<std::int64_t> tokens;
  for (int i = 0; i < 5; ++i) tokens.push_back(presence.draw(kFive, i).token);
  EXPECT_EQ(tokens, (std::vector<std::int64_t>{1, 3, 2, 1, 1}));  // 3, 3, 2, then 1.5 for both
  Sampler frequency({.frequency_penalty = 0.75}, prompt);
  tokens.clear();
  for (int i = 0; i < 6; ++i) tokens.push_back(frequency.draw(kFive, i).token);
  EXPECT_EQ(tokens, (std::vector<std::int64_t>{1, 3, 1, 3, 2, 1}));
  Sampler window({.presence_penalty = 9, .penalty_window = 1}, prompt);
  tokens.clear();
  for (int i = 0; i < 4; ++i) tokens.push_back(window.draw(kFive, i).token);
  EXPECT_EQ(tokens, (std::vector<std::int64_t>{1, 3, 1, 3}));
  EXPECT_EQ(Sampler({.repetition_penalty = 2}, prompt).draw(kFive, 0).token, 2);  // the prompt counts
  EXPECT_EQ(Sampler({.presence_penalty = 9}, prompt).draw(kFive, 0).log_probability,
            sample(kFive, 0, {}).log_probability);
}

TEST(Sampler, BiasRaisesAndForbids) {
  EXPECT_EQ(sample(kFive, 0, {.logit_bias = {{4, 4.5}}}).token, 4);
  EXPECT_EQ(sample(kFive, 0, {.logit_bias = {{1, kHidden}, {3, -100}}}).token, 2);
  const auto drawn = drawn_tokens(kFive, {.temperature = 3, .logit_bias = {{1, kHidden}}}, 400);
  EXPECT_EQ(drawn, (std::vector<std::int64_t>{0, 2, 3, 4}));
  EXPECT_THROW(sample(kFive, 0, {.logit_bias = {{5, 1}}}), ValueError);
  EXPECT_THROW(sample(kFive, 0, {.logit_bias = {{-1, 1}}}), ValueError);
}

TEST(Sampler, WhatIsBeyondFloatsIsTheLargestOne) {
  const std::vector<float> logits = {1, -2, 3, 0};
  for (const SamplingOptions& options :
       {SamplingOptions{.temperature = 1, .logit_bias = {{1, 1e300}}},
        SamplingOptions{.temperature = 1e-300, .presence_penalty = -1e308, .frequency_penalty = -1e308},
        SamplingOptions{.temperature = 1, .top_p = 0.9, .typical_p = 0.9, .logit_bias = {{1, 1e308}, {3, -1e308}}}}) {
    Sampler sampler(options);
    const std::int64_t first = sampler.draw(logits, 0).token;
    for (std::int64_t position = 1; position < 50; ++position) {
      EXPECT_EQ(sampler.draw(logits, position).token, first) << position;
    }
    if (!options.logit_bias.empty()) {
      EXPECT_EQ(first, 1);
    }
  }
  // Of two that are the largest, either.
  Sampler both({.temperature = 1, .logit_bias = {{1, 1e300}, {3, 1e300}}});
  std::set<std::int64_t> drawn;
  for (std::int64_t position = 0; position < 50; ++position) drawn.insert(both.draw(logits, position).token);
  EXPECT_EQ(drawn, (std::set<std::int64_t>{1, 3}));
}

// The mean surprise of what mirostat draws comes to tau; plain sampling's is the entropy.
TEST(Sampler, MirostatAimsAtASurprise) {
  std::vector<float> logits;
  for (int i = 0; i < 200; ++i) logits.push_back(static_cast<float>(-1.2 * std::log(1.0 + i)));
  for (const double tau : {2.0, 3.0}) {
    Sampler sampler({.temperature = 1, .seed = 3, .mirostat_tau = tau, .mirostat_eta = 0.1});
    Sampler again({.temperature = 1, .seed = 3, .mirostat_tau = tau, .mirostat_eta = 0.1});
    double sum = 0;
    constexpr int kDraws = 2000;
    for (int i = 0; i < kDraws; ++i) {
      const SampledToken token = sampler.draw(logits, i);
      EXPECT_EQ(again.draw(logits, i).token, token.token);
      sum -= static_cast<double>(token.log_probability) / std::log(2.0);
    }
    // Its own surprise is measured after truncation, which takes some of it away.
    EXPECT_GT(sum / kDraws, tau - 0.1);
    EXPECT_LT(sum / kDraws, tau + 1);
  }
}

// llama.cpp's formulas in numpy, with the library's draws (tools/test_data/sampling.py), of a model's logits.
TEST(Sampler, Mirostat2DrawsWhatLlamaCppsFormulasDraw) {
  const auto golden = nlohmann::json::parse(test::read_whole_file(test::repository_data("language/sampling.json")));
  const auto rows = golden.at("logits").get<std::vector<std::vector<float>>>();
  for (const auto& row : golden.at("mirostat2")) {
    Sampler sampler({.temperature = row.at("temperature").get<double>(),
                     .seed = row.at("seed").get<std::uint64_t>(),
                     .mirostat_tau = row.at("tau").get<double>(),
                     .mirostat_eta = row.at("eta").get<double>()});
    const auto expected = row.at("tokens").get<std::vector<std::int64_t>>();
    ASSERT_GE(expected.size(), 100u);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(sampler.draw(rows[i % rows.size()], static_cast<std::int64_t>(i)).token, expected[i])
          << row.at("tau") << ", step " << i;
    }
  }
}

class Even final : public TokenConstraint {
 public:
  void hide(std::span<float> logits) override {
    for (std::size_t i = 1; i < logits.size(); i += 2) logits[i] = kHidden;
    if (all_) std::fill(logits.begin(), logits.end(), kHidden);
  }
  void accept(std::int64_t token) override { all_ = token == 4; }
  bool ended() const override { return all_; }

 private:
  bool all_ = false;
};

TEST(Sampler, AsksItsConstraint) {
  const auto even = std::make_shared<Even>();
  Sampler sampler({.presence_penalty = 8}, {}, even);
  EXPECT_EQ(sampler.draw(kFive, 0).token, 2);
  EXPECT_EQ(sampler.draw(kFive, 1).token, 0);
  EXPECT_FALSE(sampler.ended());
  EXPECT_EQ(sampler.draw(kFive, 2).token, 4);
  EXPECT_TRUE(sampler.ended());
  EXPECT_THROW(sampler.draw(kFive, 3), ValueError);
}

TEST(Sampler, RefusesWhatMakesNoSense) {
  EXPECT_THROW(Sampler({.typical_p = 0}), ValueError);
  EXPECT_THROW(Sampler({.repetition_penalty = 0}), ValueError);
  EXPECT_THROW(Sampler({.presence_penalty = INFINITY}), ValueError);
  EXPECT_THROW(Sampler({.frequency_penalty = NAN}), ValueError);
  EXPECT_THROW(Sampler({.penalty_window = -1}), ValueError);
  EXPECT_THROW(Sampler({.logit_bias = {{1, NAN}}}), ValueError);
  EXPECT_THROW(Sampler({.mirostat_tau = 3}), ValueError);  // needs a temperature
  EXPECT_THROW(Sampler({.temperature = 1, .mirostat_tau = -1}), ValueError);
  EXPECT_THROW(Sampler({.temperature = 1, .mirostat_tau = 3, .mirostat_eta = 0}), ValueError);
  EXPECT_THROW(Sampler({.temperature = 1, .top_k = 5, .mirostat_tau = 3}), ValueError);
}

}  // namespace
}  // namespace lockstep::models
