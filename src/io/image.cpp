#include <lockstep/io/image.h>

#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "core/os.h"
#include "io/formats.h"
#include "io/image_check.h"
#include "io/image_codec.h"
#include "io/orientation.h"
#include "io/reading.h"

namespace lockstep {
inline namespace v0 {
namespace io {

void check_image_area(std::string_view name, std::uint64_t width, std::uint64_t height, std::int64_t max_pixels) {
  const CheckedSize area = CheckedSize(width) * height;
  if (width == 0 || height == 0 || !area.at_most(static_cast<std::uint64_t>(max_pixels))) {
    throw FormatError(
        fmt::format("{}: a picture of {} x {} is empty or has more than {} pixels", name, width, height, max_pixels));
  }
}

void check_image(const char* op, const Image& image) {
  const bool sizes = image.width > 0 && image.height > 0 && image.channels == 3;
  if (!sizes ||
      image.pixels.size() != static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height) * 3) {
    throw ValueError(fmt::format("{}: an image of {} x {} with {} channels does not match its {} bytes of RGB", op,
                                 image.width, image.height, image.channels, image.pixels.size()));
  }
}

Image decode_image(std::string_view name, std::span<const std::byte> bytes) {
  const Format* format = find_format({std::string(name), bytes, nullptr});
  if (format != nullptr) {
    if (const auto* decode = std::get_if<DecodePicture*>(&format->reader)) {
      return reading(name, [&] { return (*decode)(name, bytes); });
    }
  }
  throw FormatError(fmt::format("{}: is neither a PNG nor a JPEG image: {}", name, describe_start(bytes)));
}

Image load_image(const std::string& path, LoadImageOptions options) {
  const os::FileBytes file = os::read_file(path);
  Image image = decode_image(path, file.bytes);
  const int orientation = options.upright ? stored_orientation(file.bytes) : 1;
  return orientation == 1 ? std::move(image) : turned(image, orientation);
}

void save_png(const std::string& path, const Image& image) {
  check_image("save_png", image);
  const std::vector<std::byte> bytes = encode_png(image);
  os::AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

Image center_crop(const Image& image, int width, int height) {
  check_image("center_crop", image);
  if (width <= 0 || height <= 0 || width > image.width || height > image.height) {
    throw ValueError(fmt::format("center_crop: {} x {} does not fit into an image of {} x {}", width, height,
                                 image.width, image.height));
  }
  // Python's round(): half to even, as nearbyint does in the default rounding mode.
  const auto margin = [](int whole, int part) { return static_cast<int>(std::nearbyint((whole - part) / 2.0)); };
  const std::size_t left = static_cast<std::size_t>(margin(image.width, width));
  const std::size_t top = static_cast<std::size_t>(margin(image.height, height));
  const std::size_t row_bytes = static_cast<std::size_t>(width) * 3;
  Image result{.width = width, .height = height};
  result.pixels.resize(row_bytes * static_cast<std::size_t>(height));
  for (std::size_t y = 0; y < static_cast<std::size_t>(height); ++y) {
    const std::size_t source = ((top + y) * static_cast<std::size_t>(image.width) + left) * 3;
    std::memcpy(result.pixels.data() + y * row_bytes, image.pixels.data() + source, row_bytes);
  }
  return result;
}

Tensor image_to_tensor(const Image& image, Device device) {
  check_image("image_to_tensor", image);
  const std::size_t area = image.pixels.size() / 3;
  std::vector<std::uint8_t> planes(image.pixels.size());
  for (std::size_t i = 0; i < area; ++i) {
    for (std::size_t c = 0; c < 3; ++c) planes[c * area + i] = image.pixels[3 * i + c];
  }
  return Tensor::from(planes, {3, image.height, image.width}, device);
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
