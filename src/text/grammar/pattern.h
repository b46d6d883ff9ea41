// Regular expressions in grammars: the `pattern` of a JSON schema as rules for the characters of a JSON string.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {
inline namespace v0 {
namespace text {

/// For all patterns of a schema together.
inline constexpr std::size_t kMostPatternSteps = 100'000;

/// GBNF whose rule `name` derives what stands between the quotes of JSON strings in which `pattern` (of ECMAScript) is
/// found and that have `least` to `most` characters (`most` < 0: or more). What the pattern reads is written without
/// escapes where JSON needs none; what stands around it is a `char` of the caller's rules. FormatError for a pattern
/// that is malformed, that has what is not supported, by name, that no text has, or that needs more than `steps_left`,
/// which the steps taken are counted off.
std::string pattern_rules(std::string_view pattern, std::int64_t least, std::int64_t most, const std::string& name,
                          std::size_t& steps_left);

}  // namespace text
}  // namespace v0
}  // namespace lockstep
