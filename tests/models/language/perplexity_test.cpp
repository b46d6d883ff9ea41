#include <lockstep/models/perplexity.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>

#include "support/data.h"
#include "support/files.h"

namespace lockstep::models {
namespace {

std::string stories_file() {
  return (test::test_data("tinyllm") / "stories260K-f32.gguf").string();
}

nlohmann::json golden() {
  return nlohmann::json::parse(test::read_whole_file(test::repository_data("language/generation.json")));
}

// What transformers and torch compute in f64 (tools/make_generation_goldens.py).
TEST(Perplexity, IsThatOfTransformers) {
  LOCKSTEP_REQUIRE_DATA(stories_file());
  const auto model = load_language_model(stories_file());
  const auto tokens = golden().at("text").get<std::vector<std::int64_t>>();
  for (const auto& row : golden().at("perplexity")) {
    const Perplexity result = perplexity(*model, tokens, {.context = row.at("context"), .first_token = 1});
    EXPECT_NEAR(result.value, row.at("value").get<double>(), 1e-4);
    EXPECT_NEAR(result.error, row.at("error").get<double>(), 1e-4);
    EXPECT_EQ(result.log_probabilities.size(), row.at("scored").get<std::size_t>());
  }
}

TEST(Perplexity, TellsOfEachChunkAndStops) {
  LOCKSTEP_REQUIRE_DATA(stories_file());
  const auto model = load_language_model(stories_file());
  const auto tokens = golden().at("text").get<std::vector<std::int64_t>>();
  std::vector<std::int64_t> seen;
  const auto note = [&](const Perplexity& so_far, std::int64_t chunks) {
    EXPECT_EQ(chunks, 5);
    seen.push_back(so_far.chunks);
    return so_far.chunks < 3;
  };
  const Perplexity stopped = perplexity(*model, tokens, {.context = 32, .chunks = 5}, note);
  EXPECT_EQ(seen, (std::vector<std::int64_t>{1, 2, 3}));
  const Perplexity three = perplexity(*model, tokens, {.context = 32, .chunks = 3});
  EXPECT_EQ(stopped.log_probabilities, three.log_probabilities);
  EXPECT_EQ(stopped.value, three.value);
}

TEST(Perplexity, RefusesWhatMakesNoSense) {
  LOCKSTEP_REQUIRE_DATA(stories_file());
  const auto model = load_language_model(stories_file());
  const std::vector<std::int64_t> tokens(100, 5);
  EXPECT_THROW(perplexity(*model, tokens, {.context = 3}), ValueError);
  EXPECT_THROW(perplexity(*model, tokens, {.context = 513}), ValueError);
  EXPECT_THROW(perplexity(*model, tokens, {.context = 101}), ValueError);
  EXPECT_THROW(perplexity(*model, tokens, {.context = 32, .chunks = -1}), ValueError);
  const auto encoder = create_language_model(test::read_whole_file(test::test_data("lm/bert/config.json")));
  EXPECT_THROW(perplexity(*encoder, tokens, {.context = 32}), ValueError);
}

}  // namespace
}  // namespace lockstep::models
