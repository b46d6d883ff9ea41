// Upper and title case, which templates ask for: from the table of lower case, and what differs from it.
#include <array>
#include <map>

#include "text/unicode.h"
#include "text/unicode_data.h"

namespace lockstep {
inline namespace v0 {
namespace text {

std::u32string to_upper(char32_t c, bool title) {
  static const std::map<char32_t, std::array<std::u32string, 2>> uppers = [] {
    std::map<char32_t, std::array<std::u32string, 2>> result;
    char32_t at = 0;
    // Of several characters with one lower case the last counts.
    for (UnicodeReader reader(UnicodeTable::lower_case); reader.more();) {
      at += reader.number();
      result[at + static_cast<char32_t>(reader.signed_number())].fill(std::u32string(1, at));
    }
    at = 0;
    for (UnicodeReader reader(UnicodeTable::other_cases); reader.more();) {
      at += reader.number();
      for (std::u32string& text : result[at]) {
        text.clear();
        for (std::uint32_t left = reader.number(); left > 0; --left) {
          text += at + static_cast<char32_t>(reader.signed_number());
        }
      }
    }
    return result;
  }();
  const auto found = uppers.find(c);
  return found == uppers.end() ? std::u32string(1, c) : found->second[title ? 1 : 0];
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
