// Strings as Python's methods treat them. Letters beyond ASCII have lower case (by the tables of unicode.h), but no upper.
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
std::vector<std::string> split_lines(std::string_view text);
std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string title(std::string_view text);
std::string capitalized(std::string_view text);
/// For HTML.
std::string escaped(std::string_view text);
/// At most `count` times if that is not negative.
std::string replaced(std::string_view text, std::string_view from, std::string_view to, std::int64_t count);

}  // namespace text::jinja
}  // namespace v0
}  // namespace lockstep
