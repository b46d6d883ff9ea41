#include "text/text_stream.h"

#include <gtest/gtest.h>

#include "support/data.h"

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
