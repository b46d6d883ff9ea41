#include <lockstep/models/constraint.h>

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>

#include "support/data.h"
#include "support/files.h"

namespace lockstep::models {
namespace {

std::string stories_gguf() {
  return (test::test_data("tinyllm") / "stories260K-f32.gguf").string();
}

// Every token of a text of the grammar is allowed, and what is drawn is a text of it; the tokens are bytes and pieces.
TEST(Constraint, HoldsWhatIsDrawnToAGrammar) {
  LOCKSTEP_REQUIRE_DATA(stories_gguf());
  const auto model = load_language_model(stories_gguf());
  const text::Tokenizer tokenizer = text::Tokenizer::load(stories_gguf());
  const text::TokenTexts texts(tokenizer);
  const text::Grammar schema = text::Grammar::from_json_schema(
      R"({"type":"object","properties":{"name":{"type":"string","maxLength":12},"n":{"type":"integer"},"tags":{"type":"array",
          "items":{"enum":["big","r\u00e9d","\u65e5"]},"minItems":1,"maxItems":3}},"required":["name","n","tags"]})");
  const auto prompt = tokenizer.encode("Once upon a time");
  const std::int64_t end = *tokenizer.end_token();
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const GenerateOptions options{.sampling = {.temperature = seed == 0 ? 0 : 1.3, .seed = seed},
                                  .max_tokens = 200,
                                  .end_tokens = {end},
                                  .constraint = constrain(schema, texts, {end})};
    std::vector<std::int64_t> ids;
    for (const SampledToken& token : generate(*model, prompt, options)) ids.push_back(token.token);
    std::string text;
    for (const std::int64_t id : ids) text += tokenizer.bytes(id);
    EXPECT_TRUE(schema.matches(text)) << text;
    const auto json = nlohmann::json::parse(text);
    EXPECT_TRUE(json.at("n").is_number_integer()) << text;
    EXPECT_GE(json.at("tags").size(), 1u);
    // Guesses are held to it, too.
    GenerateOptions guessed = options;
    guessed.constraint = constrain(schema, texts, {end});
    guessed.speculation = {.draft = model.get(), .tokens = 3};
    const auto again = generate(*model, prompt, guessed);
    ASSERT_EQ(again.size(), ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(again[i].token, ids[i]);
  }
}

TEST(Constraint, AllowsExactlyWhatGoesOn) {
  LOCKSTEP_REQUIRE_DATA(stories_gguf());
  const text::Tokenizer tokenizer = text::Tokenizer::load(stories_gguf());
  const text::TokenTexts texts(tokenizer);
  const std::int64_t end = *tokenizer.end_token();
  const auto constraint = constrain(text::Grammar::from_gbnf("root ::= \" the\" \"n\"?"), texts, {end});
  const auto allowed = [&] {
    std::vector<float> logits(static_cast<std::size_t>(tokenizer.size()) + 3, 0.0f);  // some models have more rows
    constraint->hide(logits);
    std::vector<std::string> result;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const auto id = static_cast<std::int64_t>(i);
      if (!std::isinf(logits[i])) result.push_back(id == end ? "END" : tokenizer.bytes(id));
    }
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    return result;
  };
  std::vector<std::string> expected;
  for (std::int64_t id = 0; id < tokenizer.size(); ++id) {
    const std::string text = tokenizer.bytes(id);
    if (!text.empty() && std::string(" then").starts_with(text)) expected.push_back(text);
  }
  std::sort(expected.begin(), expected.end());
  expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
  EXPECT_EQ(allowed(), expected);
  EXPECT_THROW(constraint->accept(*tokenizer.find("\u2581a")), ValueError);
  EXPECT_THROW(constraint->accept(1), ValueError);  // a special token
  EXPECT_THROW(constraint->accept(-1), ValueError);
  constraint->accept(*tokenizer.find("\u2581the"));
  EXPECT_EQ(allowed(), (std::vector<std::string>{"END", "n"}));
  EXPECT_FALSE(constraint->ended());
  constraint->accept(*tokenizer.find("n"));
  EXPECT_TRUE(constraint->ended());
}

// A point is any character, but no special token; neither is its name in a text.
TEST(Constraint, SpecialTokensComeWhereTheirNumberStands) {
  LOCKSTEP_REQUIRE_DATA(stories_gguf());
  const text::Tokenizer tokenizer = text::Tokenizer::load(stories_gguf());
  const text::TokenTexts texts(tokenizer);
  const std::int64_t end = *tokenizer.end_token();
  const auto constraint = constrain(text::Grammar::from_gbnf("root ::= . <[1]> \"n\""), texts, {end});
  EXPECT_EQ(tokenizer.token(1), "<s>");
  EXPECT_THROW(constraint->accept(1), ValueError);
  constraint->accept(*tokenizer.find("n"));
  std::vector<float> logits(static_cast<std::size_t>(tokenizer.size()), 0.0f);
  constraint->hide(logits);
  for (std::size_t i = 0; i < logits.size(); ++i) EXPECT_EQ(std::isinf(logits[i]), i != 1) << i;
  constraint->accept(1);
  constraint->accept(*tokenizer.find("n"));
  EXPECT_TRUE(constraint->ended());
  EXPECT_FALSE(text::Grammar::from_gbnf("root ::= <[1]>").matches("<s>"));
}

}  // namespace
}  // namespace lockstep::models
