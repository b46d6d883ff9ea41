#include "text/unicode.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "core/utf8.h"
#include "text/unicode_data.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

constexpr std::array<std::string_view, 30> kNames = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl",
                                                     "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc",
                                                     "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};

const UnicodeRuns& categories() {
  static const UnicodeRuns runs(UnicodeTable::categories);
  return runs;
}

// As the tool numbers them.
enum class Difference : std::uint8_t { mark, number, bert_sign, bert_control, bert_mark, cased };

bool differs(char32_t c, Difference step) {
  static const UnicodeRuns runs(UnicodeTable::differences);
  return (runs(c) >> static_cast<unsigned>(step) & 1) != 0;
}

}  // namespace

Category category(char32_t c) {
  return c > 0x10ffff ? Category::Cn : static_cast<Category>(categories()(c));
}

namespace {

// Categories that follow each other.
constexpr std::uint32_t masks(Category first, Category last) {
  return (std::uint32_t{2} << static_cast<unsigned>(last)) - (std::uint32_t{1} << static_cast<unsigned>(first));
}

}  // namespace

bool is_mark(char32_t c) {
  return in_mask(c, masks(Category::Mn, Category::Me)) != differs(c, Difference::mark);
}

bool is_number(char32_t c) {
  return in_mask(c, masks(Category::Nd, Category::No)) != differs(c, Difference::number);
}

bool is_bert_sign(char32_t c) {
  return in_mask(c, masks(Category::Pc, Category::Po)) != differs(c, Difference::bert_sign);
}

bool is_bert_control(char32_t c) {
  const std::uint32_t controls = mask_of(Category::Cc) | mask_of(Category::Cf) | mask_of(Category::Co);
  return in_mask(c, controls) != differs(c, Difference::bert_control);
}

bool is_bert_mark(char32_t c) {
  return in_mask(c, mask_of(Category::Mn)) != differs(c, Difference::bert_mark);
}

bool is_cased(char32_t c) {
  return in_mask(c, masks(Category::Lu, Category::Lt)) != differs(c, Difference::cased);
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
  const std::span<const std::uint32_t> runs = categories().runs();
  for (std::size_t i = 0; mask != 0 && i < runs.size(); ++i) {
    if ((mask >> (runs[i] & 255) & 1) == 0) continue;
    const char32_t next = i + 1 < runs.size() ? runs[i + 1] >> 8 : 0x110000;
    result.emplace_back(runs[i] >> 8, next - 1);
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

using Cases = std::unordered_map<char32_t, char32_t>;

const Cases& lower_cases() {
  static const Cases made = [] {
    Cases result;
    char32_t c = 0;
    for (UnicodeReader reader(UnicodeTable::lower_case); reader.more();) {
      c += reader.number();
      result.emplace(c, c + static_cast<char32_t>(reader.signed_number()));
    }
    return result;
  }();
  return made;
}

char32_t lower(char32_t c) {
  if (c < 0x80) return c >= U'A' && c <= U'Z' ? c + 32 : c;
  const auto found = lower_cases().find(c);
  return found == lower_cases().end() ? c : found->second;
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
