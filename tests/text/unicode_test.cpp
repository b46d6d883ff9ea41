#include "text/unicode.h"

#include <gtest/gtest.h>

namespace lockstep::text {
namespace {

TEST(Unicode, DecodesOnlyWellFormedUtf8) {
  EXPECT_EQ(decode_utf8("a\u00e9\u20ac\U0001F600"), U"aé€😀");
  for (const char* bytes : {"\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
                            "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xe2\x82"}) {
    EXPECT_EQ(decode_utf8(bytes), std::nullopt);
  }
  EXPECT_EQ(decode_utf8_lossy("a\xe2\x82z\xff\xff"), U"a\ufffdz\ufffd\ufffd");
  for (const char32_t c : {U'\x7f', U'\x80', U'\u07ff', U'\u0800', U'\uffff', U'\U00010000', U'\U0010ffff'}) {
    EXPECT_EQ(decode_utf8(encode_utf8(c)), std::u32string(1, c));
  }
}

TEST(Unicode, KnowsCategories) {
  EXPECT_EQ(category(U'A'), Category::Lu);
  EXPECT_EQ(category(U'_'), Category::Pc);
  EXPECT_EQ(category(U'٣'), Category::Nd);
  EXPECT_EQ(category(U'\u0301'), Category::Mn);
  EXPECT_EQ(category(U'\U0010ffff'), Category::Cn);
  EXPECT_EQ(category(char32_t{0x110000}), Category::Cn);
  EXPECT_TRUE(is_space(U'\u3000'));
  EXPECT_FALSE(is_space(U'\u200b'));
  EXPECT_EQ(category_mask("Xx"), std::nullopt);
}

// Steps go by other versions: what became a sign, a mark or a control after Unicode 8 is none to BERT, and U+166D is
// still a sign.
TEST(Unicode, StepsKnowOtherVersions) {
  EXPECT_TRUE(is_bert_sign(U'!'));
  EXPECT_EQ(category(U'\u166d'), Category::So);
  EXPECT_TRUE(is_bert_sign(U'\u166d'));
  EXPECT_EQ(category(U'\u2e43'), Category::Po);
  EXPECT_FALSE(is_bert_sign(U'\u2e43'));
  EXPECT_FALSE(is_bert_control(U'\u0890'));
  EXPECT_FALSE(is_bert_mark(U'\u0898'));
  EXPECT_EQ(category(U'\u0897'), Category::Mn);
  EXPECT_FALSE(is_mark(U'\u0897'));
  EXPECT_TRUE(is_number(U'\U00011de0'));
  EXPECT_EQ(category(U'\U00011de0'), Category::Cn);
  EXPECT_FALSE(is_bert_sign(char32_t{0x110000}));
}

TEST(Unicode, UpperAndTitleCase) {
  EXPECT_EQ(to_upper(U'\u00e9'), U"\u00c9");
  EXPECT_EQ(to_upper(U'\u00df'), U"SS");
  EXPECT_EQ(to_upper(U'\u00df', true), U"Ss");
  EXPECT_EQ(to_upper(U'\u01c6'), U"\u01c4");
  EXPECT_EQ(to_upper(U'\u01c6', true), U"\u01c5");
  EXPECT_EQ(to_upper(U'\u10d0'), U"\u1c90");
  EXPECT_EQ(to_upper(U'\u10d0', true), U"\u10d0");
  EXPECT_EQ(to_upper(U'1'), U"1");
}

// From the examples of UAX #15 and what goes wrong easily: order of marks, exclusions, Hangul.
TEST(Unicode, NormalForms) {
  EXPECT_EQ(normalize(U"\u1e9b\u0323", NormalForm::nfc), U"\u1e9b\u0323");
  EXPECT_EQ(normalize(U"\u1e9b\u0323", NormalForm::nfd), U"\u017f\u0323\u0307");
  EXPECT_EQ(normalize(U"\u1e9b\u0323", NormalForm::nfkc), U"\u1e69");
  EXPECT_EQ(normalize(U"\u1e9b\u0323", NormalForm::nfkd), U"s\u0323\u0307");
  EXPECT_EQ(normalize(U"q\u0307\u0323", NormalForm::nfc), U"q\u0323\u0307");
  EXPECT_EQ(normalize(U"\u0958", NormalForm::nfc), U"\u0915\u093c");  // excluded from composition
  EXPECT_EQ(normalize(U"\u1100\u1161\u11a8", NormalForm::nfc), U"\uac01");
  EXPECT_EQ(normalize(U"\uac01", NormalForm::nfd), U"\u1100\u1161\u11a8");
  EXPECT_EQ(normalize(U"\ufb01\u00b2", NormalForm::nfkc), U"fi2");
  EXPECT_EQ(to_lower(U"ΑÉİ"), U"αéi\u0307");
}

// One case for each rule of UAX #29.
TEST(Unicode, GraphemeClusters) {
  const auto count = [](std::u32string_view text) { return grapheme_ends(text).size(); };
  EXPECT_EQ(count(U""), 0u);
  EXPECT_EQ(grapheme_ends(U"ab\r\nc"), (std::vector<std::size_t>{1, 2, 4, 5}));
  EXPECT_EQ(count(U"\n\u0301"), 2u);  // nothing joins a control character
  EXPECT_EQ(count(U"e\u0301\u0323x"), 2u);
  EXPECT_EQ(count(U"\u1100\u1161\u11a8\u1100"), 2u);  // Hangul by parts,
  EXPECT_EQ(count(U"\uac00\u11a8\uac01\u1161"), 3u);  // and syllables
  EXPECT_EQ(count(U"\u0e33\u0e01\u0e33"), 2u);        // a spacing mark
  EXPECT_EQ(count(U"\u0600\u0661"), 1u);              // a prepended one
  EXPECT_EQ(count(U"\u0915\u094d\u0937\u0915"), 2u);  // a conjunct
  EXPECT_EQ(count(U"\u0915\u0937"), 2u);
  EXPECT_EQ(count(U"\U0001f468\u200d\U0001f469\u200d\U0001f467"), 1u);
  EXPECT_EQ(count(U"a\u200d\U0001f469"), 2u);
  EXPECT_EQ(count(U"\U0001f44d\U0001f3fd"), 1u);
  EXPECT_EQ(count(U"\U0001f1e9\U0001f1ea\U0001f1eb"), 2u);  // flags are pairs
}

}  // namespace
}  // namespace lockstep::text
