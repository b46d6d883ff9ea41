// Strings as Python's methods treat them; cases by the tables of unicode.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace text::jinja {

/// The characters of which str.isspace() is true, in UTF-8.
inline constexpr std::string_view kSpaces =
    " \t\n\r\f\v\x1c\x1d\x1e\x1f\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f"
    "\u205f\u3000";

/// Without the characters of `set` at the ends.
std::string stripped(std::string_view text, std::string_view set, bool left, bool right);
/// At each separator, at most `most` times if that is not negative; null: at runs of spaces. FormatError for an empty one.
std::vector<std::string> split(std::string_view text, const std::string* separator, std::int64_t most, bool from_right);
std::vector<std::string> split_lines(std::string_view text, bool keep_ends = false);
std::string upper(std::string_view text);
std::string lower(std::string_view text);
/// str.title(): what follows a letter is small, all else begins a word.
std::string title(std::string_view text);
/// The filter title: words begin behind spaces, minus signs and opening brackets.
std::string title_of_words(std::string_view text);
std::string capitalized(std::string_view text);
enum class Padding : std::uint8_t { left, right, both };
/// str.rjust, ljust and center. FormatError for a width beyond kMaxText.
std::string padded(std::string_view text, std::int64_t width, char32_t fill, Padding where);
/// For HTML.
std::string escaped(std::string_view text);
/// At most `count` times if that is not negative.
std::string replaced(std::string_view text, std::string_view from, std::string_view to, std::int64_t count);

}  // namespace text::jinja
}  // namespace v0
}  // namespace lockstep
