#include <lockstep/models/beam_search.h>

#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>

#include "support/data.h"
#include "support/files.h"

namespace lockstep::models {
namespace {

std::string story_model() {
  return (test::test_data("tinyllm") / "stories260K-f32.gguf").string();
}

std::vector<std::int64_t> ids_of(const std::vector<SampledToken>& tokens) {
  std::vector<std::int64_t> ids;
  for (const SampledToken& token : tokens) ids.push_back(token.token);
  return ids;
}

// generate(num_beams=...) in f64 (tools/make_generation_goldens.py).
TEST(BeamSearch, FindsWhatTransformersFinds) {
  LOCKSTEP_REQUIRE_DATA(story_model());
  const auto model = load_language_model(story_model());
  const auto golden = nlohmann::json::parse(test::read_whole_file(test::repository_data("language/generation.json")));
  const auto prompt = golden.at("prompt").get<std::vector<std::int64_t>>();
  for (const auto& row : golden.at("beam_search")) {
    const auto tokens = row.at("tokens").get<std::vector<std::vector<std::int64_t>>>();
    const auto beams = beam_search(
        *model, prompt, {.beams = row.at("beams"), .max_tokens = static_cast<std::int64_t>(tokens[0].size())});
    ASSERT_EQ(beams.size(), tokens.size());
    for (std::size_t i = 0; i < beams.size(); ++i) {
      EXPECT_EQ(ids_of(beams[i].tokens), tokens[i]) << i;
      EXPECT_NEAR(beams[i].score, row.at("scores")[i].get<double>(), 1e-5);
      EXPECT_FALSE(beams[i].ended);
    }
  }
}

TEST(BeamSearch, WithOneBeamIsGreedy) {
  LOCKSTEP_REQUIRE_DATA(story_model());
  const auto model = load_language_model(story_model());
  const std::vector<std::int64_t> prompt = {1, 403, 407, 261, 378};
  const auto greedy = generate(*model, prompt, {.max_tokens = 25});
  EXPECT_EQ(ids_of(beam_search(*model, prompt, {.beams = 1, .max_tokens = 25}).at(0).tokens), ids_of(greedy));
  // The end token is the twelfth: an answer of eleven, whose score counts the end.
  const std::int64_t end = greedy[11].token;
  std::size_t first = 0;
  double sum = 0;
  for (; greedy[first].token != end; ++first) sum += static_cast<double>(greedy[first].log_probability);
  sum += static_cast<double>(greedy[first].log_probability);
  const Beam beam = beam_search(*model, prompt, {.beams = 1, .max_tokens = 25, .end_tokens = {end}}).at(0);
  EXPECT_TRUE(beam.ended);
  EXPECT_EQ(beam.tokens.size(), first);
  EXPECT_NEAR(beam.score, sum / static_cast<double>(first + 1), 1e-5);
}

// Wide enough, it is a search of all continuations.
TEST(BeamSearch, FindsTheBestOfAll) {
  const auto root = test::test_data("lm/mamba");  // a state can be copied, too
  LOCKSTEP_REQUIRE_DATA(root);
  const auto model = load_language_model(root.string());
  const std::vector<std::int64_t> prompt = {3, 7};
  const auto vocabulary = model->vocabulary();
  double best = -1e9;
  for (std::int64_t token = 0; token < vocabulary; ++token) {
    const auto one = generate(*model, prompt, {.sampling = {.logit_bias = {{token, 1e6}}}, .max_tokens = 1}).at(0);
    std::vector<std::int64_t> longer = prompt;
    longer.push_back(token);
    const auto two = generate(*model, longer, {.max_tokens = 1}).at(0);
    best = std::max(best, static_cast<double>(one.log_probability) + static_cast<double>(two.log_probability));
  }
  const auto beams = beam_search(*model, prompt, {.beams = vocabulary, .max_tokens = 2, .length_penalty = 0});
  EXPECT_EQ(static_cast<std::int64_t>(beams.size()), vocabulary);
  EXPECT_NEAR(beams.front().score, best, 1e-5);
}

TEST(BeamSearch, RefusesWhatMakesNoSense) {
  const auto model =
      create_language_model(R"({"model_type":"llama","hidden_size":8,"intermediate_size":8,"vocab_size":9,
      "num_hidden_layers":1,"num_attention_heads":1,"max_position_embeddings":6})");
  EXPECT_THROW(beam_search(*model, {}, {}), ValueError);
  EXPECT_THROW(beam_search(*model, {1}, {.beams = 0}), ValueError);
  EXPECT_THROW(beam_search(*model, {1}, {.max_tokens = -1}), ValueError);
  EXPECT_THROW(beam_search(*model, {1}, {.length_penalty = INFINITY}), ValueError);
  EXPECT_EQ(beam_search(*model, {1, 2, 3}, {.beams = 2}).at(0).tokens.size(), 4u);  // the context's end, as generate
  EXPECT_EQ(generate(*model, {1, 2, 3}).size(), 4u);
}

}  // namespace
}  // namespace lockstep::models
