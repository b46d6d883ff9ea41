// Pieces of the pages that commands write: text and pictures that need no other file.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <lockstep/io/image.h>

namespace lockstep {
inline namespace v0 {
namespace cli {

/// Text as HTML shows it; control characters become "?".
std::string escaped(std::string_view text);
/// The same, and lines stay lines.
std::string escaped_lines(std::string_view text);
/// RFC 4648, with padding.
std::string base64(std::span<const std::byte> bytes);
/// The picture as PNG in a data URI.
std::string data_uri(const io::Image& image);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
