// Text as characters: UTF-8, general categories, cases, grapheme clusters and normal forms, each as one version of the
// package tokenizers has it, whose parts go by different versions of Unicode (tools/make_unicode_tables.py).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace text {

// In the order of the tool.
enum class Category : std::uint8_t {
  Lu,
  Ll,
  Lt,
  Lm,
  Lo,
  Mn,
  Mc,
  Me,
  Nd,
  Nl,
  No,
  Pc,
  Pd,
  Ps,
  Pe,
  Pi,
  Pf,
  Po,
  Sm,
  Sc,
  Sk,
  So,
  Zs,
  Zl,
  Zp,
  Cc,
  Cf,
  Cs,
  Co,
  Cn
};

Category category(char32_t c);
/// By the letters of a category ("Lu") or of its class ("L"); nothing for a name that is neither.
std::optional<std::uint32_t> category_mask(std::string_view name);
/// The characters of some categories, as ranges in ascending order.
std::vector<std::pair<char32_t, char32_t>> category_ranges(std::uint32_t mask);
inline std::uint32_t mask_of(Category c) {
  return std::uint32_t{1} << static_cast<unsigned>(c);
}
inline bool in_mask(char32_t c, std::uint32_t mask) {
  return (mask_of(category(c)) & mask) != 0;
}
/// What StripAccents takes for a mark and Digits for a number: not just categories M and N.
bool is_mark(char32_t c);
bool is_number(char32_t c);
/// Of the steps of BERT, which know an older Unicode: categories P, then Cc, Cf and Co, then Mn, as far as they know
/// them.
bool is_bert_sign(char32_t c);
bool is_bert_control(char32_t c);
bool is_bert_mark(char32_t c);
/// The property Cased.
bool is_cased(char32_t c);
/// The property White_Space.
bool is_space(char32_t c);
/// A character of a word by UTS #18: alphabetic ones, marks, decimal digits, connectors, joiners.
bool is_word(char32_t c);

/// Nothing if the bytes are not valid UTF-8.
std::optional<std::u32string> decode_utf8(std::string_view bytes);
/// Each maximal part of an ill-formed sequence becomes U+FFFD, as the Unicode standard recommends.
std::u32string decode_utf8_lossy(std::string_view bytes);
std::string encode_utf8(std::u32string_view characters);
std::string encode_utf8(char32_t character);

std::u32string to_lower(std::u32string_view characters);
/// Upper case, or title case (of the first character of a word): several characters for some.
std::u32string to_upper(char32_t c, bool title = false);
/// For comparing without case: lower case, and the two characters outside ASCII whose upper case is inside.
char32_t fold(char32_t c);

/// Where extended grapheme clusters (UAX #29: what a reader takes for one character) end, in ascending order.
std::vector<std::size_t> grapheme_ends(std::u32string_view characters);

enum class NormalForm : std::uint8_t { nfd, nfc, nfkd, nfkc };
std::u32string normalize(std::u32string_view characters, NormalForm form);

}  // namespace text
}  // namespace v0
}  // namespace lockstep
