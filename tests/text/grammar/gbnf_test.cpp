#include <lockstep/text/grammar.h>

#include <cstdio>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/error.h>

namespace lockstep::text {
namespace {

using testing::HasSubstr;

bool fits(const std::string& grammar, const std::string& text) {
  return Grammar::from_gbnf(grammar).matches(text);
}

TEST(Gbnf, TextsAlternativesAndGroups) {
  const std::string grammar =
      "# who\nroot ::= greeting \" \" (\"Ann\" | \"Bo\"\n  | \"Cy\")  # a comment\ngreeting ::= \"Hi\" |\n  "
      "\"Hello\"\n";
  for (const char* text : {"Hi Ann", "Hello Bo", "Hi Cy"}) EXPECT_TRUE(fits(grammar, text)) << text;
  for (const char* text : {"", "Hi", "Hi ", "Hi An", "Hi Anna", "hi Ann", "Hi Ann Bo"})
    EXPECT_FALSE(fits(grammar, text)) << text;
  EXPECT_TRUE(fits("root ::= \"\"", ""));
  EXPECT_TRUE(fits("root ::= a?\na ::= root-b\nroot-b ::= \"x\"", "x"));
}

TEST(Gbnf, Repetitions) {
  const auto lengths = [](const std::string& operation) {
    std::vector<int> result;
    const Grammar grammar = Grammar::from_gbnf("root ::= \"ab\"" + operation);
    std::string text;
    for (int i = 0; i < 8; ++i, text += "ab") {
      if (grammar.matches(text)) result.push_back(i);
      EXPECT_FALSE(grammar.matches(text + "a"));
    }
    return result;
  };
  using Numbers = std::vector<int>;
  EXPECT_EQ(lengths(""), (Numbers{1}));
  EXPECT_EQ(lengths("*"), (Numbers{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(lengths("+"), (Numbers{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(lengths("?"), (Numbers{0, 1}));
  EXPECT_EQ(lengths("{3}"), (Numbers{3}));
  EXPECT_EQ(lengths("{0}"), (Numbers{0}));
  EXPECT_EQ(lengths("{2,}"), (Numbers{2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(lengths("{2,4}"), (Numbers{2, 3, 4}));
  EXPECT_EQ(lengths("{ 0 , 2 }"), (Numbers{0, 1, 2}));
  EXPECT_EQ(lengths("{2}{2}"), (Numbers{4}));
}

TEST(Gbnf, TokensAreWrittenByTheirNumbers) {
  EXPECT_FALSE(fits("root ::= <[12]>", "12"));
  EXPECT_TRUE(fits("root ::= <[12]>?", ""));
  for (const char* bad :
       {"root ::= <12>", "root ::= <[12>", "root ::= <[12]", "root ::= <[]>", "root ::= <[2147483648]>"})
    EXPECT_THROW(Grammar::from_gbnf(bad), FormatError) << bad;
}

TEST(Gbnf, ClassesAreOfCharacters) {
  EXPECT_TRUE(fits("root ::= [a-cx]+", "abcx"));
  EXPECT_FALSE(fits("root ::= [a-cx]+", "d"));
  EXPECT_TRUE(fits("root ::= [^\"\\\\\\x00-\\x1f]*", "né 日本 🎉"));
  EXPECT_FALSE(fits("root ::= [^\"]*", "a\"b"));
  EXPECT_TRUE(fits("root ::= .", "🎉"));
  EXPECT_TRUE(fits("root ::= .", "\n"));
  EXPECT_FALSE(fits("root ::= .", "\xf0\x9f"));           // half a character
  EXPECT_FALSE(fits("root ::= .*", "\xed\xa0\x80"));      // a surrogate
  EXPECT_FALSE(fits("root ::= .*", "\xc0\x80"));          // a longer form than needed
  EXPECT_FALSE(fits("root ::= .*", "\xf4\x90\x80\x80"));  // beyond the last one
  EXPECT_TRUE(fits("root ::= [-a]+", "a-"));
  EXPECT_TRUE(fits("root ::= [a-]+", "a-"));
  EXPECT_TRUE(fits("root ::= [\\]\\[]+ \"\\u00e9\\t\\\"\" \"\\U0001f389\"", "][é\t\"🎉"));
}

// Each character of some ranges, and those beside them.
TEST(Gbnf, RangesEndWhereTheyEnd) {
  for (const auto& [first, last] : {std::pair<std::uint32_t, std::uint32_t>{0x41, 0x5a},
                                    {0x7f, 0x80},
                                    {0x7fe, 0x803},
                                    {0x3b1, 0x3c9},
                                    {0xfffd, 0x10001},
                                    {0x4e00, 0x9fff},
                                    {0x1f300, 0x1f64f},
                                    {0x20, 0x10ffff}}) {
    char line[64];
    std::snprintf(line, sizeof line, "root ::= [\\U%08x-\\U%08x]", first, last);
    const Grammar grammar = Grammar::from_gbnf(line);
    for (const std::uint32_t edge :
         {first, last, (first + last) / 2, 0x7fu, 0x80u, 0x7ffu, 0x800u, 0xffffu, 0x10000u}) {
      for (std::uint32_t c = edge - 2; c <= edge + 2; ++c) {
        if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) continue;
        std::string text;
        if (c < 0x80) {
          text = {static_cast<char>(c)};
        } else if (c < 0x800) {
          text = {static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
        } else if (c < 0x10000) {
          text = {static_cast<char>(0xe0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)),
                  static_cast<char>(0x80 | (c & 63))};
        } else {
          text = {static_cast<char>(0xf0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 63)),
                  static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
        }
        EXPECT_EQ(grammar.matches(text), c >= first && c <= last) << std::hex << first << " " << last << " " << c;
      }
    }
  }
}

TEST(Gbnf, NestsAsDeepAsTheTextDoes) {
  const Grammar grammar = Grammar::from_gbnf("root ::= \"(\" root \")\" | \"x\"");
  for (const std::size_t depth : {0u, 1u, 5u, 400000u}) {  // deeper than what is remembered at a time
    EXPECT_TRUE(grammar.matches(std::string(depth, '(') + "x" + std::string(depth, ')')));
    EXPECT_FALSE(grammar.matches(std::string(depth + 1, '(') + "x" + std::string(depth, ')')));
  }
  EXPECT_TRUE(fits("root ::= (\"a\"? | \"b\"*)*", "abba"));  // empty repetitions end
}

TEST(Gbnf, LeavesOutWhatNeverEnds) {
  EXPECT_TRUE(fits("root ::= \"a\" | \"b\" endless\nendless ::= \"c\" endless", "a"));
  EXPECT_FALSE(fits("root ::= \"a\" | \"b\" endless\nendless ::= \"c\" endless", "bc"));
}

TEST(Gbnf, SaysWhatIsWrong) {
  std::string many = "root ::=";
  for (int i = 0; i < 200; ++i) many += " \"x\"{1001}";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "no rule \"root\""},
      {"root ::= a", "no rule \"a\""},
      {"start ::= \"a\"", "no rule \"root\""},
      {"root = \"a\"", "::= is missing"},
      {"root ::= \"a\"\nroot ::= \"b\"", "there twice"},
      {"root ::= \"a", "not closed"},
      {"root ::= [a", "not closed"},
      {"root ::= \"a\n\"", "not closed"},
      {"root ::= (\"a\"", ") is missing"},
      {"root ::= \"a\")", "what is this"},
      {"root ::= \"\\q\"", "no such escape"},
      {"root ::= \"\\u12\"", "hexadecimal"},
      {"root ::= \"\\U00110000\"", "no such character"},
      {"root ::= [b-a]", "ends before it begins"},
      {"root ::= \"a\"{2,1}", "more at least"},
      {"root ::= \"a\"{", "a number is missing"},
      {"root ::= \"a\"{1", "} is missing"},
      {"root ::= \"a\"{9999999999}", "more than 2000"},
      {"\n\nroot ::= <think>", "line 3"},
      {"root ::= \xff", "UTF-8"},
      {"root ::= root \"a\" | \"b\"", "left recursion"},
      {"root ::= a\na ::= b? c\nb ::= \"x\"\nc ::= a \"y\" | \"z\"", "left recursion"},
      {"root ::= " + std::string(200, '(') + "\"a\"" + std::string(200, ')'), "nest deeper"},
      {"root ::= a\na ::= \"x\" a", "no text"},
      {"root ::= \"x\" []", "no text"},
      {many, "more than 200000 symbols"}};
  for (const auto& [source, message] : cases) {
    try {
      Grammar::from_gbnf(source, "file");
      ADD_FAILURE() << source;
    } catch (const FormatError& error) {
      EXPECT_THAT(error.what(), HasSubstr(message)) << source;
      EXPECT_THAT(error.what(), HasSubstr("file: "));
    }
  }
}

TEST(Gbnf, AmbiguityHasALimit) {
  std::string many = "root ::= a0\n";
  for (int i = 0; i < 20; ++i) {
    many += "a" + std::to_string(i) + " ::= \"x\" a" + std::to_string(i + 1) + " \"1\" | \"x\" a" +
            std::to_string(i + 1) + " \"2\"\n";
  }
  many += "a20 ::= \"y\"\n";
  EXPECT_THROW(fits(many, std::string(20, 'x') + "y"), ValueError);
}

}  // namespace
}  // namespace lockstep::text
