// The image decoders, on bytes in memory; `name` serves messages. Both throw FormatError for anything that is not a
// whole, undamaged picture of at most `max_pixels`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/io/image.h>

namespace lockstep {
inline namespace v0 {
namespace io {

Image decode_png(std::string_view name, std::span<const std::byte> bytes, std::int64_t max_pixels = kMaxImagePixels);
Image decode_jpeg(std::string_view name, std::span<const std::byte> bytes, std::int64_t max_pixels = kMaxImagePixels);
std::vector<std::byte> encode_png(const Image& image);

/// Of either kind, recognised by content.
Image decode_image(std::string_view name, std::span<const std::byte> bytes);

/// Throws FormatError if a picture of this size has no pixels or too many.
void check_image_area(std::string_view name, std::uint64_t width, std::uint64_t height, std::int64_t max_pixels);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
