#include "core/utf8.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Utf8, FirstCharacter) {
  const Utf8Character euro = first_character("\u20acx");
  EXPECT_TRUE(euro.valid);
  EXPECT_EQ(euro.bytes, 3u);
  EXPECT_EQ(euro.code, U'\u20ac');
  EXPECT_EQ(first_character(std::string_view("\0a", 2)).code, U'\0');
}

// The maximal parts of the table "U+FFFD for truncated sequences" of the Unicode standard, section 3.9.
TEST(Utf8, IllFormedSequencesEndWhereTheyCannotGoOn) {
  struct Case {
    const char* text;
    std::size_t bytes;
  };
  for (const Case& each :
       {Case{"\xe1\x80\xe2", 2}, Case{"\xf0\x91\x92\xf1", 3}, Case{"\xf1\xbf\x41", 2}, Case{"\xed\xa0\x80", 1},
        Case{"\xc0\xaf", 1}, Case{"\xf4\x91\x80", 1}, Case{"\x80", 1}, Case{"\xff", 1}, Case{"\xe2\x82", 2}}) {
    const Utf8Character first = first_character(each.text);
    EXPECT_FALSE(first.valid) << each.text;
    EXPECT_EQ(first.bytes, each.bytes) << each.text;
    EXPECT_EQ(first.code, U'\ufffd') << each.text;
  }
}

TEST(Utf8, WholeTexts) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("a\u00e9\u20ac\U0001F600"));
  EXPECT_FALSE(is_utf8("a\xe2\x82"));
  EXPECT_FALSE(is_utf8("\xed\xa0\x80"));
}

}  // namespace
}  // namespace lockstep
