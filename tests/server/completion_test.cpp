// Several answers to one prompt.
#include "server/completion.h"

#include <algorithm>

#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "server/infill.h"
#include "support/marked_tokenizer.h"
#include "support/served_stories.h"

namespace lockstep {
inline namespace v0 {
namespace server {
namespace {

using nlohmann::json;
using test::stories;
using test::Told;

// Each draws its first token in the step that reads the prompt's end.
TEST(Completion, APromptIsReadOnceForAllItsAnswers) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const auto model = models::load_language_model(stories());
  const text::Tokenizer tokenizer = text::Tokenizer::load(stories());
  const text::TokenTexts texts(tokenizer);
  HttpServer http({.port = 0});
  ModelSteps steps(*model, {}, Numerics::exact, 0, nullptr);
  Batcher batcher(steps);
  std::vector<std::unique_ptr<Completion>> answers;
  std::vector<Completion*> all;
  for (const std::uint64_t seed : {3u, 4u, 5u}) {
    const CompletionOptions options{.sampling = {.temperature = 1, .seed = seed}, .max_tokens = 20};
    answers.push_back(
        std::make_unique<Completion>(*model, batcher, tokenizer, texts, tokenizer.encode("Tom"), options));
    all.push_back(answers.back().get());
  }
  for (const auto& piece : Completion::step_together(http, all)) EXPECT_TRUE(piece.has_value());
  while (all[0]->finish_reason().empty() || all[1]->finish_reason().empty() || all[2]->finish_reason().empty()) {
    Completion::step_together(http, all);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<std::int64_t> alone;
    models::GenerateOptions options{.sampling = {.temperature = 1, .seed = 3 + i}, .max_tokens = 20};
    for (const auto& token : models::generate(*model, tokenizer.encode("Tom"), options)) alone.push_back(token.token);
    EXPECT_EQ(all[i]->tokens(), alone);
  }
}

TEST(LanguageService, ChoicesAreWhatEachWouldBeAlone) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const Told told;
  const std::string longer =
      "Once upon a time there was a little girl named Lily. She had a big, red ball and loved it.";
  for (const char* stop : {"", ". "}) {
    json body = {{"prompt", {"Tom and", longer}}, {"n", 3}, {"seed", 7}, {"max_tokens", 25}, {"logprobs", 1}};
    if (*stop != '\0') body["stop"] = stop;
    const json together = told.completion(body);
    body["stream"] = true;
    std::vector<std::string> streamed(6);
    std::vector<std::string> hashes(6);
    for (const json& event : test::events_of(told.post("/v1/completions", body).body)) {
      const json& choice = event.at("choices").at(0);
      streamed.at(choice.at("index")) += choice.at("text");
      hashes.at(choice.at("index")) = choice.value("tokens_hash", "");
    }
    body.erase("stream");
    std::size_t index = 0;
    std::int64_t drawn = 0;
    for (const std::string& prompt : {std::string("Tom and"), longer}) {
      for (int seed = 7; seed < 10; ++seed, ++index) {
        body["prompt"] = prompt;
        body["n"] = 1;
        body["seed"] = seed;
        const json one = told.completion(body);
        json alone = one.at("choices").at(0);
        alone["index"] = index;
        EXPECT_EQ(together.at("choices").at(index), alone);
        EXPECT_EQ(streamed[index], alone.at("text"));
        EXPECT_EQ(hashes[index], alone.at("tokens_hash"));
        drawn += one.at("usage").at("completion_tokens").get<std::int64_t>();
      }
    }
    EXPECT_EQ(together.at("usage").at("completion_tokens"), drawn);
  }
  // The prompt's own tokens are told to each; an answer may be empty.
  const json echoed =
      told.completion({{"prompt", "Tom and"}, {"n", 2}, {"echo", true}, {"logprobs", 0}, {"max_tokens", 0}});
  json second = echoed.at("choices").at(1);
  second["index"] = 0;
  EXPECT_EQ(second, echoed.at("choices").at(0));
  EXPECT_GT(second.at("logprobs").at("tokens").size(), 1u);
}

// Those of the highest log-probability a token.
TEST(LanguageService, TellsTheBestOfSeveral) {
  LOCKSTEP_REQUIRE_DATA(stories());
  const Told told;
  json body = {{"prompt", "Tom and"}, {"n", 4}, {"seed", 2}, {"max_tokens", 9}, {"logprobs", 0}};
  const json all = told.completion(body).at("choices");
  body["n"] = 2;
  body["best_of"] = 4;
  const json answer = told.completion(body);
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < 4; ++i) {
    double sum = 0;
    for (const json& one : all.at(i).at("logprobs").at("token_logprobs")) sum += one.get<double>();
    order.emplace_back(-sum / static_cast<double>(all.at(i).at("logprobs").at("tokens").size()), i);
  }
  std::sort(order.begin(), order.end());
  EXPECT_NE(order[0].second, 0u);  // or a first answer would do
  ASSERT_EQ(answer.at("choices").size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(answer.at("choices").at(i).at("tokens_hash"), all.at(order[i].second).at("tokens_hash"));
    EXPECT_EQ(answer.at("choices").at(i).at("index"), i);
  }
  EXPECT_EQ(answer.at("usage").at("completion_tokens"), 36);
}

TEST(Infill, APromptForWhatStandsBetween) {
  const std::vector<std::int64_t> before = {50, 51};
  const std::vector<std::int64_t> marks = {test::kFirstMark + 2, test::kFirstMark + 1, test::kFirstMark};
  for (const auto& names :
       std::vector<std::vector<std::string>>{{"<|fim_middle|>", "<|fim_suffix|>", "<|fim_prefix|>"},
                                             {"<｜fim▁end｜>", "<｜fim▁hole｜>", "<｜fim▁begin｜>"}}) {
    const text::Tokenizer tokenizer = test::marked_tokenizer(names);
    const std::vector<std::int64_t> b = tokenizer.encode("b");
    EXPECT_EQ(infill_prompt(tokenizer, before, "b"),
              (std::vector<std::int64_t>{marks[0], 50, 51, marks[1], b.front(), marks[2]}));
  }
  EXPECT_THROW(infill_prompt(test::marked_tokenizer({"<|fim_middle|>"}), before, "b"), HttpError);
}

}  // namespace
}  // namespace server
}  // namespace v0
}  // namespace lockstep
