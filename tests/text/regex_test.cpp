#include "text/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/error.h>

#include "support/files.h"
#include "text/unicode.h"

namespace lockstep::text {
namespace {

using testing::ElementsAre;

std::vector<std::string> matches(std::string_view pattern, std::string_view text) {
  const std::u32string characters = *decode_utf8(text);
  std::vector<std::string> result;
  for (const Match& match : Regex(pattern).all(characters)) {
    result.push_back(encode_utf8(characters.substr(match.begin, match.end - match.begin)));
  }
  return result;
}

TEST(Regex, MatchesWhatTheSyntaxSays) {
  EXPECT_THAT(matches("a|bc", "abcab"), ElementsAre("a", "bc", "a"));
  EXPECT_THAT(matches(R"(\p{L}+|\p{N}{1,3})", "ab1234é"), ElementsAre("ab", "123", "4", "é"));
  EXPECT_THAT(matches(R"(\s+(?!\S)|\s+)", "a   b"), ElementsAre("  ", " "));
  EXPECT_THAT(matches("(?i:'s|'LL)", "'S 'll 'Ll"), ElementsAre("'S", "'ll", "'Ll"));
  EXPECT_THAT(matches("[^a-c]", "abcd-"), ElementsAre("d", "-"));
  EXPECT_THAT(matches("[a-f&&[^bd]]+", "abcdef"), ElementsAre("a", "c", "ef"));
  EXPECT_THAT(matches(R"((?<=x)\d|(?<!x)y)", "x1 2y xy"), ElementsAre("1", "y"));
  EXPECT_THAT(matches("a+?b??", "aab"), ElementsAre("a", "a"));
  EXPECT_THAT(matches("a*+a|b", "aaab"), ElementsAre("b"));
  EXPECT_THAT(matches("(ab){2}", "ababab"), ElementsAre("abab"));
  EXPECT_THAT(matches(R"([\]\-x]+)", "x]-"), ElementsAre("x]-"));
  EXPECT_THAT(matches(R"(\x41\u0042\x{1F600})", "AB\U0001F600"), ElementsAre("AB\U0001F600"));
  EXPECT_THAT(matches(R"(\P{L}\P{^Lu})", "1A"), ElementsAre("1A"));
  EXPECT_THAT(matches("^a|b$", "aab"), ElementsAre("a", "b"));
  EXPECT_THAT(matches("(?=b)|a", "abb"), ElementsAre("a", ""));  // not where the match before has ended
  EXPECT_THAT(matches("x*", "axb"), ElementsAre("", "x", ""));
}

// As Oniguruma: a line begins behind a newline that something follows.
TEST(Regex, EndsOfLinesAreAskedFor) {
  const auto places = [](std::string_view pattern, std::u32string_view text, bool by_lines) {
    std::vector<std::size_t> result;
    for (const Match& match : Regex(pattern, by_lines).all(text)) result.push_back(match.begin);
    return result;
  };
  EXPECT_THAT(places("^", U"a\nb\n", true), ElementsAre(0, 2));
  EXPECT_THAT(places("$", U"a\nb\n", true), ElementsAre(1, 3, 4));
  EXPECT_THAT(places("^$", U"\n\nx", true), ElementsAre(0, 1));
  EXPECT_THAT(places("^", U"a\nb\n", false), ElementsAre(0));
  EXPECT_THAT(places("$", U"a\nb\n", false), ElementsAre(4));
}

TEST(Regex, RefusesWhatItDoesNotKnow) {
  for (const char* pattern : {"(", ")", "a)", "[a", "*", "(?<name>a)", R"(\1)", R"(\p{Greek})", "[[:alpha:]]", "[z-a]",
                              "a{5,2}", "a{99999}", "(?<=ab)c", "\\", "\xff", R"(\b)"}) {
    EXPECT_THROW(Regex{pattern}, FormatError) << pattern;
  }
  EXPECT_THROW(Regex(std::string(200, '(') + std::string(200, ')')), FormatError);
}

TEST(Regex, GivesUpOnExponentialPatterns) {
  const std::u32string text(40, U'a');
  EXPECT_THROW(Regex("(a|aa|a)+b").search(text, 0), ValueError);
  const std::u32string longer(100'000, U'a');
  EXPECT_EQ(Regex("a+").search(longer, 0)->end, longer.size());
  EXPECT_THROW(Regex("(ab|a)+").search(longer, 0), ValueError);
}

}  // namespace
}  // namespace lockstep::text
