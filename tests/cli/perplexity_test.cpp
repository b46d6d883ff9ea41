// lockstep perplexity, and the options of `generate` that choose tokens, as a user runs them.
#include <cmath>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_command.h"
#include "support/data.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;

std::string story_file(const std::string& type = "f32") {
  return (test_data("tinyllm") / ("stories260K-" + type + ".gguf")).string();
}

TEST(PerplexityCommand, TellsHowWellATextIsForetold) {
  LOCKSTEP_REQUIRE_DATA(story_file());
  const TemporaryFolder folder;
  std::string story;
  for (int i = 0; i < 12; ++i)
    story += "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. ";
  std::ofstream(folder.path("story.txt")) << story;
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"perplexity", "--model", story_file(), folder.path("story.txt"),
                                      "--context",  "64",      "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = run_command(words);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return result.json().at(0);
  };
  const auto whole = run({});
  EXPECT_GT(whole.at("perplexity").get<double>(), 1);
  EXPECT_LT(whole.at("perplexity").get<double>(), 5);
  EXPECT_EQ(whole.at("scored").get<int>(), whole.at("chunks").get<int>() * 31);
  EXPECT_EQ(whole.at("chunks").get<int>(), whole.at("tokens").get<int>() / 64);
  const auto two = run({"--chunks", "2"});
  EXPECT_EQ(two.at("chunks"), 2);
  EXPECT_EQ(run({"--chunks", "2", "--device", "ref"}).at("hash"), two.at("hash"));
  const CommandResult shown =
      run_command({"perplexity", "--model", story_file(), folder.path("story.txt"), "--context", "64"});
  EXPECT_THAT(shown.output, testing::StartsWith("perplexity "));
  EXPECT_THAT(shown.output, HasSubstr(whole.at("hash").get<std::string>()));
  const CommandResult short_text =
      run_command({"perplexity", "--model", story_file(), folder.path("story.txt"), "--context", "500"});
  EXPECT_EQ(short_text.exit_code, 1);
  EXPECT_THAT(short_text.errors, HasSubstr("a chunk 500"));
  EXPECT_EQ(run_command({"perplexity", "--model", story_file()}).exit_code, 2);
  EXPECT_EQ(run_command({"perplexity", "--model", story_file(), "/no/such/text"}).exit_code, 1);
}

TEST(Generate, GuessesWithoutChangingTheAnswer) {
  LOCKSTEP_REQUIRE_DATA(story_file());
  const auto run = [](std::vector<std::string> more) {
    std::vector<std::string> words = {"generate", "--model", story_file(), "--max-tokens", "40", "--temperature",
                                      "0.7",      "--seed",  "3",          "Tom"};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = run_command(words);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return result;
  };
  const CommandResult plain = run({});
  const CommandResult drafted = run({"--draft", story_file("q8_0")});
  EXPECT_EQ(drafted.output, plain.output);
  EXPECT_THAT(drafted.errors, HasSubstr("guesses right"));
  EXPECT_EQ(run({"--lookup", "2", "--guesses", "3"}).output, plain.output);
  EXPECT_EQ(run_command({"generate", "--model", story_file(), "--draft", story_file(), "--lookup", "2", "x"}).exit_code,
            2);
}

TEST(Generate, PenaltiesAndBiasChangeWhatComes) {
  LOCKSTEP_REQUIRE_DATA(story_file());
  const auto text = [](std::vector<std::string> more) {
    std::vector<std::string> words = {"generate", "--model", story_file(), "--max-tokens", "40", "Once upon a time"};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = run_command(words);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return result.output;
  };
  const std::string plain = text({});
  EXPECT_NE(text({"--repetition-penalty", "2"}), plain);
  EXPECT_NE(text({"--presence-penalty", "9"}), plain);
  EXPECT_NE(text({"--frequency-penalty", "9", "--penalty-window", "30"}), plain);
  EXPECT_NE(text({"--logit-bias", "432=-inf"}), plain);  // the comma
  EXPECT_NE(text({"--temperature", "1", "--mirostat", "5", "--seed", "2"}), plain);
  EXPECT_NE(text({"--temperature", "1", "--typical-p", "0.5", "--seed", "2"}), plain);
  for (const char* bias : {"432", "432=", "432=x", "=1", "a=1"}) {
    EXPECT_EQ(run_command({"generate", "--model", story_file(), "--logit-bias", bias, "x"}).exit_code, 2) << bias;
  }
  EXPECT_EQ(run_command({"generate", "--model", story_file(), "--mirostat", "3", "x"}).exit_code, 2);
}

TEST(Generate, SearchesWithBeams) {
  LOCKSTEP_REQUIRE_DATA(story_file());
  const auto run = [](std::vector<std::string> more) {
    std::vector<std::string> words = {"generate", "--model", story_file(), "--max-tokens", "20", "Once upon a time", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words);
  };
  const auto sum = [](const CommandResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    double all = 0;
    const auto answers = result.json();  // named, because a range-for of C++20 does not keep `json()` alive
    for (const auto& value : answers.at(0).at("logprobs")) all += value.get<double>();
    return all;
  };
  EXPECT_GE(sum(run({"--beams", "4"})), sum(run({})));
  EXPECT_EQ(run({"--beams", "4", "--temperature", "1"}).exit_code, 2);
  EXPECT_EQ(run({"--beams", "4", "--lookup", "2"}).exit_code, 2);
  EXPECT_EQ(run({"--beams", "0"}).exit_code, 2);
}

TEST(Generate, HoldsTheAnswerToAGrammarOrASchema) {
  LOCKSTEP_REQUIRE_DATA(story_file());
  const TemporaryFolder folder;
  std::ofstream(folder.path("g")) << "root ::= \" She \" (\"ran\" | \"sat\") \"!\"\n";
  std::ofstream(folder.path("s")) << R"({"type":"object","properties":{"age":{"type":"integer"}},"required":["age"]})";
  std::ofstream(folder.path("bad")) << "root ::= \"\n";
  const auto run = [](std::vector<std::string> more) {
    std::vector<std::string> words = {"generate", "--model", story_file(), "Once upon a time"};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words);
  };
  const CommandResult grammar = run({"--grammar", folder.path("g")});
  EXPECT_THAT(grammar.output, testing::AnyOf(" She ran!\n", " She sat!\n")) << grammar.errors;
  const CommandResult schema = run({"--json-schema", folder.path("s")});
  EXPECT_TRUE(schema.json().at(0).at("age").is_number_integer()) << schema.output << schema.errors;
  const CommandResult bad = run({"--grammar", folder.path("bad")});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.errors, HasSubstr("line 1: a text or a class is not closed"));
  EXPECT_EQ(run({"--grammar", folder.path("g"), "--json-schema", folder.path("s")}).exit_code, 2);
}

}  // namespace
}  // namespace lockstep::test
