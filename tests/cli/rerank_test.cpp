// lockstep rerank, as a user runs it.
#include <cmath>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <lockstep/models/rerank.h>

#include "cli/run_command.h"
#include "support/data.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::string kQuery = "what do cats eat";

TEST(Rerank, SortsDocuments) {
  const std::string path = (repository_data("rerank") / "bert").string();
  const std::vector<std::string> documents = {"A dog runs through the park!", "Cats eat fish.", "It rains."};
  const auto model = models::load_language_model(path);
  const auto scores =
      models::rerank(*model, text::Tokenizer::load(path), kQuery, documents, models::rerank_form_of(path, *model));
  const auto order = models::best_first(scores);
  const CommandResult result =
      run_command({"rerank", "--model", path, "--json", kQuery, documents[0], documents[1], documents[2]});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const auto lines = result.json();
  ASSERT_EQ(lines.size(), 3u);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].at("index"), order[i]);
    EXPECT_EQ(lines[i].at("score").get<float>(), scores[order[i]]);
    EXPECT_EQ(lines[i].at("document"), documents[order[i]]);
  }
  // The best alone, of a file; logits.
  const TemporaryFolder folder;
  std::ofstream(folder.path("documents.txt")) << documents[0] << "\r\n\n" << documents[1] << "\n" << documents[2];
  const CommandResult raw = run_command(
      {"rerank", "--model", path, "--json", "--raw", "--top", "1", "--file", folder.path("documents.txt"), kQuery});
  ASSERT_EQ(raw.json().size(), 1u) << raw.errors;
  EXPECT_EQ(raw.json()[0].at("document"), documents[order[0]]);
  EXPECT_NEAR(1 / (1 + std::exp(-raw.json()[0].at("score").get<double>())), scores[order[0]], 1e-6);
  const CommandResult text = run_command({"rerank", "--model", path, kQuery, documents[1]});
  EXPECT_THAT(text.output, StartsWith(fmt::format("{:9.4f}  Cats eat fish.", scores[1])));
}

TEST(Rerank, TokenizeShowsWhatIsRead) {
  const std::string path = (repository_data("rerank") / "bert").string();
  const TemporaryFolder folder;
  std::ofstream(folder.path("texts.json")) << R"([["what do cats eat", "Fish!"], "Fish!"])";
  const CommandResult result = run_command({"tokenize", "--model", path, "--texts", folder.path("texts.json")});
  const text::Tokenizer tokenizer = text::Tokenizer::load(path);
  ASSERT_EQ(result.json().size(), 2u) << result.errors;
  EXPECT_EQ(result.json()[0].get<std::vector<std::int64_t>>(), tokenizer.encode_pair(kQuery, "Fish!").ids);
  EXPECT_EQ(result.json()[1].get<std::vector<std::int64_t>>(), tokenizer.encode("Fish!"));
}

TEST(Rerank, RefusesWhatMakesNoSense) {
  const std::string path = (repository_data("rerank") / "bert").string();
  EXPECT_EQ(run_command({"rerank", "--model", path, kQuery}).exit_code, 2);
  EXPECT_EQ(run_command({"rerank", "--model", path}).exit_code, 2);
  EXPECT_EQ(run_command({"rerank", kQuery, "a"}).exit_code, 2);
  EXPECT_EQ(run_command({"rerank", "--model", path, "--top", "0", kQuery, "a"}).exit_code, 2);
  const auto fails = [](const std::vector<std::string>& words) {
    const CommandResult result = run_command(words);
    EXPECT_EQ(result.exit_code, 1);
    return result.errors;
  };
  EXPECT_THAT(fails({"rerank", "--model", path, "", "a"}), HasSubstr("the query has no tokens"));
  EXPECT_THAT(fails({"rerank", "--model", path, "--most-tokens", "3", kQuery, "a"}), HasSubstr("no room"));
  EXPECT_THAT(fails({"rerank", "--model", path, "--file", "/nowhere", kQuery}), HasSubstr("/nowhere"));
  EXPECT_THAT(fails({"rerank", "--model", (repository_data("rerank") / "bert_labels").string(), kQuery, "a"}),
              HasSubstr("3 labels"));
  EXPECT_THAT(fails({"rerank", "--model", (repository_data("language/models") / "lfm2").string(), kQuery, "a"}),
              HasSubstr("has no head for scores"));
}

}  // namespace
}  // namespace lockstep::test
