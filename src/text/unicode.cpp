#include "text/unicode.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "core/utf8.h"
#include "text/unicode_tables.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

constexpr std::array<std::string_view, 30> kNames = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl",
                                                     "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc",
                                                     "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};

// The last five bits of the run that a character lies in.
template <std::size_t N>
std::uint32_t kind_in(const std::uint32_t (&runs)[N], char32_t c) {
  const std::uint32_t key = static_cast<std::uint32_t>(c) << 5 | 31;
  return *(std::upper_bound(std::begin(runs), std::end(runs), key) - 1) & 31;
}

}  // namespace

Category category(char32_t c) {
  return c > 0x10ffff ? Category::Cn : static_cast<Category>(kind_in(kCategories, c));
}

Category bert_category(char32_t c) {
  const std::uint32_t own = c > 0x10ffff ? 31 : kind_in(kBertCategories, c);
  return own == 31 ? category(c) : static_cast<Category>(own);
}

std::optional<std::uint32_t> category_mask(std::string_view name) {
  std::uint32_t mask = 0;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name || (name.size() == 1 && kNames[i].front() == name.front())) mask |= std::uint32_t{1} << i;
  }
  return mask == 0 ? std::nullopt : std::optional(mask);
}

std::vector<std::pair<char32_t, char32_t>> category_ranges(std::uint32_t mask) {
  std::vector<std::pair<char32_t, char32_t>> result;
  for (std::size_t i = 0; mask != 0 && i < std::size(kCategories); ++i) {
    if ((mask >> (kCategories[i] & 31) & 1) == 0) continue;
    const char32_t next = i + 1 < std::size(kCategories) ? kCategories[i + 1] >> 5 : 0x110000;
    result.emplace_back(kCategories[i] >> 5, next - 1);
  }
  return result;
}

bool is_space(char32_t c) {
  if (c <= 0xff) return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0;
  return c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

bool is_word(char32_t c) {
  const Category kind = category(c);
  const bool circled = (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
                       (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
  return kind <= Category::Nl || kind == Category::Pc || c == 0x200c || c == 0x200d || circled;
}

std::optional<std::u32string> decode_utf8(std::string_view bytes) {
  std::u32string result;
  result.reserve(bytes.size());
  while (!bytes.empty()) {
    const Utf8Character next = first_character(bytes);
    if (!next.valid) return std::nullopt;
    result += next.code;
    bytes.remove_prefix(next.bytes);
  }
  return result;
}

std::u32string decode_utf8_lossy(std::string_view bytes) {
  std::u32string result;
  while (!bytes.empty()) {
    const Utf8Character next = first_character(bytes);
    result += next.code;
    bytes.remove_prefix(next.bytes);
  }
  return result;
}

std::string encode_utf8(char32_t c) {
  const auto byte = [](char32_t value) { return static_cast<char>(static_cast<unsigned char>(value)); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xc0 | c >> 6), byte(0x80 | (c & 0x3f))};
  if (c < 0x10000) return {byte(0xe0 | c >> 12), byte(0x80 | (c >> 6 & 0x3f)), byte(0x80 | (c & 0x3f))};
  return {byte(0xf0 | c >> 18), byte(0x80 | (c >> 12 & 0x3f)), byte(0x80 | (c >> 6 & 0x3f)), byte(0x80 | (c & 0x3f))};
}

std::string encode_utf8(std::u32string_view characters) {
  std::string result;
  result.reserve(characters.size());
  for (const char32_t c : characters) result += encode_utf8(c);
  return result;
}

namespace {

char32_t lower(char32_t c) {
  std::size_t low = 0;
  std::size_t high = std::size(kLowerCase) / 2;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (kLowerCase[2 * middle] == c) return kLowerCase[2 * middle + 1];
    if (kLowerCase[2 * middle] < c) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return c;
}

}  // namespace

std::u32string to_lower(std::u32string_view characters) {
  std::u32string result;
  for (const char32_t c : characters) {
    if (c == 0x130) {
      result += U"i\u0307";
    } else {
      result += lower(c);
    }
  }
  return result;
}

char32_t fold(char32_t c) {
  if (c == 0x17f) return U's';
  return lower(c);
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
