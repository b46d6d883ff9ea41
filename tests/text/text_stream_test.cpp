#include "text/text_stream.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/os.h"
#include "support/data.h"
#include "support/files.h"
#include "support/long_forms.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

TEST(TextStream, GivesTheTextBehindThePromptAndHoldsIncompleteCharactersBack) {
  const auto file = test::test_data("tinyllm") / "stories260K-f32.gguf";
  LOCKSTEP_REQUIRE_DATA(file);
  const Tokenizer tokenizer = Tokenizer::load(file.string());
  const std::vector<std::int64_t> prompt = tokenizer.encode("Tom said");
  // Characters outside its vocabulary are written as bytes, a token each.
  const std::vector<std::int64_t> more = tokenizer.encode("Tom said \u4e2d!", {});
  ASSERT_GE(more.size(), prompt.size() + 4);
  TextStream stream(tokenizer, prompt);
  std::string text;
  for (std::size_t i = prompt.size(); i < more.size(); ++i) {
    const std::string piece = stream.add(more[i]);
    EXPECT_EQ(piece.find("\ufffd"), std::string::npos);
    text += piece;
  }
  EXPECT_EQ(text + stream.finish(), " \u4e2d!");
  EXPECT_EQ(stream.text(), " \u4e2d!");
}

using nlohmann::json;
using Ids = std::vector<std::int64_t>;

std::string known_of(const Tokenizer& tokenizer, const Ids& ids, std::size_t count) {
  std::string text = tokenizer.decode(Ids(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count)),
                                      {.skip_special_tokens = true});
  while (text.ends_with("\ufffd")) text.resize(text.size() - 3);
  return text;
}

// Where no token changes the text of those before it, pieces join to the text of all, and each comes as soon as it can.
TEST(TextStream, GivesWhatDecodingAllOfThemGives) {
  const std::filesystem::path folder = test::repository_data("tokenizers");
  int compared = 0;
  for (const os::DirectoryEntry& entry : os::list_directory(folder.string())) {
    const json golden = json::parse(test::read_whole_file(folder / entry.name));
    const Tokenizer tokenizer = Tokenizer::from_json(golden.at("tokenizer").dump());
    for (const json& item : golden.at("cases")) {
      if (takes_long_here() && drawn_index(4) != 0) continue;
      const auto ids = item.at("ids").get<Ids>();
      const std::string whole = tokenizer.decode(ids, {.skip_special_tokens = true});
      for (const std::size_t prompt : {std::size_t{0}, ids.size() / 2}) {
        const Ids first(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(prompt));
        const std::string before = tokenizer.decode(first, {.skip_special_tokens = true});
        bool grows = whole.starts_with(before);
        for (std::size_t i = prompt; i <= ids.size(); ++i) {
          grows = grows && whole.starts_with(known_of(tokenizer, ids, i));
        }
        if (!grows) continue;
        TextStream stream(tokenizer, first);
        std::size_t known = before.size();
        for (std::size_t i = prompt; i < ids.size(); ++i) {
          stream.add(ids[i]);
          known = std::max(known, known_of(tokenizer, ids, i + 1).size());
          ASSERT_EQ(stream.text().size(), known - before.size()) << entry.name << ": " << item.at("text") << i;
        }
        stream.finish();
        ASSERT_EQ(stream.text(), whole.substr(before.size())) << entry.name << ": " << item.at("text");
        ++compared;
      }
    }
  }
  EXPECT_GE(compared, takes_long_here() ? 350 : 1800);
}

// A tokenizer replaces bytes that end inside a character together with the characters before them; what was given out
// stays, and what comes is whole characters.
TEST(TextStream, KeepsCharactersBeforeAnIncompleteOne) {
  const json golden = json::parse(test::read_whole_file(test::repository_data("tokenizers") / "sentence_piece.json"));
  const Tokenizer tokenizer = Tokenizer::from_json(golden.at("tokenizer").dump());
  const json& vocabulary = golden.at("tokenizer").at("model").at("vocab");
  const auto id = [&](const char* token) { return vocabulary.at(token).get<std::int64_t>(); };
  const Ids first_half = {id("<0xC3>"), id("<0xA9>"), id("<0xC3>")};
  ASSERT_EQ(tokenizer.decode(first_half), "\ufffd\ufffd\ufffd");
  TextStream cut(tokenizer, {});
  EXPECT_EQ(cut.add(first_half[0]), "");
  EXPECT_EQ(cut.add(first_half[1]), "\u00e9");
  EXPECT_EQ(cut.add(first_half[2]), "");
  EXPECT_EQ(cut.finish(), "\ufffd");
  TextStream completed(tokenizer, {});
  for (const std::int64_t token : first_half) completed.add(token);
  EXPECT_EQ(completed.add(id("<0xA9>")), "\u00e9");
  EXPECT_EQ(completed.finish(), "");
  TextStream broken(tokenizer, {});
  for (const std::int64_t token : first_half) broken.add(token);
  EXPECT_EQ(broken.add(id("a")), "\ufffda");
  EXPECT_EQ(broken.add(id("b")), "b");
  EXPECT_EQ(broken.text() + broken.finish(), "\u00e9\ufffdab");
}

TEST(TextStream, FindsStopTextsAndWhatMayBecomeOne) {
  EXPECT_EQ(find_stop("one two three", {"three", "two", ""}), 4u);
  EXPECT_EQ(find_stop("one", {"two"}), std::string::npos);
  EXPECT_EQ(possible_stop("see the e", {"end", "the end"}), 5u);
  EXPECT_EQ(possible_stop("see", {"end", "x"}), 1u);
  EXPECT_EQ(possible_stop("abc", {"x"}), 0u);
}

}  // namespace
}  // namespace text
}  // namespace v0
}  // namespace lockstep
