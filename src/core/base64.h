// Base64 (RFC 4648), with padding.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep {
inline namespace v0 {

std::string base64_of(std::string_view bytes);
/// Nothing for a text that is no base64.
std::optional<std::string> bytes_of_base64(std::string_view text);

}  // namespace v0
}  // namespace lockstep
