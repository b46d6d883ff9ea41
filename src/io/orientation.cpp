// EXIF is a TIFF file of tags, in a segment of a JPEG file or a chunk of a PNG file. Everything is bounds-checked here:
// the decoders, which know the containers too, pass over it.
#include "io/orientation.h"

#include <cstdint>
#include <string_view>

#include "core/checked.h"
#include "io/image_check.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

using Bytes = std::span<const std::byte>;
using namespace std::string_view_literals;

constexpr int kAsStored = 1;

bool starts_with(Bytes bytes, std::string_view text) {
  return text_of(bytes).starts_with(text);
}

// What is behind `count` bytes; nothing where there are fewer.
Bytes behind(Bytes bytes, std::size_t count) {
  return bytes.subspan(count < bytes.size() ? count : bytes.size());
}

// The first `size` bytes as a number. The caller has seen that they are there.
std::uint32_t number(Bytes bytes, std::size_t size, bool big_endian) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < size; ++i) {
    value = value << 8 | std::to_integer<std::uint32_t>(bytes[big_endian ? i : size - 1 - i]);
  }
  return value;
}

// Of the first directory of a TIFF file: a count of 2 bytes, then entries of 12: tag, type, count and value.
int orientation_of_tiff(Bytes tiff) {
  constexpr std::uint32_t kOrientation = 0x0112;
  constexpr std::uint32_t kShort = 3;
  const bool big = starts_with(tiff, "MM\0*"sv);
  if ((!big && !starts_with(tiff, "II*\0"sv)) || tiff.size() < 8) return kAsStored;
  Bytes rest = behind(tiff, number(tiff.subspan(4), 4, big));
  if (rest.size() < 2) return kAsStored;
  const std::uint32_t entries = number(rest, 2, big);
  rest = rest.subspan(2);
  for (std::uint32_t i = 0; i < entries && rest.size() >= 12; ++i, rest = rest.subspan(12)) {
    if (number(rest, 2, big) != kOrientation) continue;
    const bool is_short = number(rest.subspan(2), 2, big) == kShort && number(rest.subspan(4), 4, big) == 1;
    const std::uint32_t value = number(rest.subspan(8), 2, big);
    return is_short && value >= 1 && value <= 8 ? static_cast<int>(value) : kAsStored;
  }
  return kAsStored;
}

// Segments are 0xff, a kind, and, except for a few kinds, a length that counts itself.
int orientation_of_jpeg(Bytes file) {
  constexpr std::string_view kExif = "Exif\0\0"sv;
  Bytes rest = behind(file, 2);
  while (rest.size() >= 4 && rest[0] == std::byte{0xff}) {
    const auto kind = std::to_integer<int>(rest[1]);
    if (kind == 0xff) {  // padding
      rest = rest.subspan(1);
      continue;
    }
    if (kind == 0xda || kind == 0xd9) break;  // the picture, or the end
    const std::uint32_t length = number(rest.subspan(2), 2, true);
    const Bytes segment = rest.subspan(2);
    if (length < 2 || length > segment.size()) break;
    const Bytes content = segment.first(length).subspan(2);
    if (kind == 0xe1 && starts_with(content, kExif)) return orientation_of_tiff(content.subspan(kExif.size()));
    rest = segment.subspan(length);
  }
  return kAsStored;
}

// Chunks are a length, a name, that many bytes, and a checksum.
int orientation_of_png(Bytes file) {
  Bytes rest = behind(file, 8);
  while (rest.size() >= 12) {
    const std::uint32_t length = number(rest, 4, true);
    const Bytes chunk = rest.subspan(4);
    if (length > chunk.size() - 8) break;
    if (starts_with(chunk, "eXIf")) return orientation_of_tiff(chunk.subspan(4, length));
    rest = chunk.subspan(4 + length + 4);
  }
  return kAsStored;
}

}  // namespace

int stored_orientation(std::span<const std::byte> file) {
  if (starts_with(file, "\xff\xd8")) return orientation_of_jpeg(file);
  if (starts_with(file, "\x89PNG\r\n\x1a\n")) return orientation_of_png(file);
  return kAsStored;
}

Image turned(const Image& stored, int orientation) {
  check_image("turned", stored);
  if (orientation == kAsStored) return stored;
  // From 5 on rows are columns; and either may be counted from its end.
  const bool swapped = orientation >= 5;
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const auto width = static_cast<std::size_t>(stored.width);
  const auto height = static_cast<std::size_t>(stored.height);
  Image image{.width = swapped ? stored.height : stored.width, .height = swapped ? stored.width : stored.height};
  image.pixels.reserve(stored.pixels.size());
  for (std::size_t row = 0; row < (swapped ? width : height); ++row) {
    for (std::size_t column = 0; column < (swapped ? height : width); ++column) {
      const std::size_t across = swapped ? row : column;
      const std::size_t down = swapped ? column : row;
      const std::size_t x = from_right ? width - 1 - across : across;
      const std::size_t y = from_bottom ? height - 1 - down : down;
      const auto pixel = stored.pixels.begin() + static_cast<std::ptrdiff_t>(3 * (y * width + x));
      image.pixels.insert(image.pixels.end(), pixel, pixel + 3);
    }
  }
  return image;
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
