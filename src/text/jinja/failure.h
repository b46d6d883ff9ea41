// What went wrong in a chat template.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {
inline namespace v0 {
namespace text::jinja {

inline constexpr std::string_view kFailed = "the chat template: ";
/// Throws FormatError: what went wrong, behind kFailed.
[[noreturn]] void fail(const std::string& what);

}  // namespace text::jinja
}  // namespace v0
}  // namespace lockstep
