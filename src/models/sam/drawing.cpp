// Masks as pictures. Integer arithmetic only: the same bytes everywhere.
#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

#include <lockstep/models/sam_masks.h>

#include "io/image_check.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

using Colour = std::array<int, 3>;

constexpr Colour kWhite{255, 255, 255};
constexpr Colour kFirst{30, 144, 255};
constexpr Colour kForeground{40, 200, 60};
constexpr Colour kBackground{230, 40, 40};

// Hues far from each other, of one brightness: steps of the golden angle around the circle.
Colour colour_of(std::size_t number) {
  if (number == 0) return kFirst;
  const int hue = static_cast<int>((210 * 1000 + number * 137508 % 360000) % 360000);  // thousandths of a degree
  const int sector = hue / 60000;
  const int ramp = 55 + 200 * (hue % 60000) / 60000;
  switch (sector) {
    case 0: return {255, ramp, 55};
    case 1: return {310 - ramp, 255, 55};
    case 2: return {55, 255, ramp};
    case 3: return {55, 310 - ramp, 255};
    case 4: return {ramp, 55, 255};
    default: return {255, 55, 310 - ramp};
  }
}

class Canvas {
 public:
  explicit Canvas(io::Image& image) : image_(image) {}

  // `share` of 256 parts of the colour.
  void blend(int x, int y, const Colour& colour, int share) {
    if (x < 0 || y < 0 || x >= image_.width || y >= image_.height) return;
    std::uint8_t* pixel =
        image_.pixels.data() +
        3 * (static_cast<std::size_t>(y) * static_cast<std::size_t>(image_.width) + static_cast<std::size_t>(x));
    for (std::size_t c = 0; c < 3; ++c) {
      pixel[c] = static_cast<std::uint8_t>((pixel[c] * (256 - share) + colour[c] * share) / 256);
    }
  }

  void disc(int x, int y, int radius, const Colour& colour) {
    for (int dy = -radius; dy <= radius; ++dy) {
      for (int dx = -radius; dx <= radius; ++dx) {
        if (dx * dx + dy * dy <= radius * radius) blend(x + dx, y + dy, colour, 256);
      }
    }
  }

  void frame(const SamBox& box, int thickness, const Colour& colour) {
    const int x0 = static_cast<int>(box.x0);
    const int y0 = static_cast<int>(box.y0);
    const int x1 = static_cast<int>(box.x1);
    const int y1 = static_cast<int>(box.y1);
    for (int t = 0; t < thickness; ++t) {
      for (int x = x0; x <= x1; ++x) {
        blend(x, y0 + t, colour, 256);
        blend(x, y1 - t, colour, 256);
      }
      for (int y = y0; y <= y1; ++y) {
        blend(x0 + t, y, colour, 256);
        blend(x1 - t, y, colour, 256);
      }
    }
  }

 private:
  io::Image& image_;
};

void check_size(const char* op, const SamMask& mask, int width, int height) {
  if (mask.runs.width != width || mask.runs.height != height) {
    throw ValueError(fmt::format("{}: a mask of {} x {} does not fit a picture of {} x {}", op, mask.runs.width,
                                 mask.runs.height, width, height));
  }
}

// Numbers of the masks, the largest area first, so that what is drawn later covers less.
std::vector<std::size_t> by_area(const std::vector<SamMask>& masks) {
  std::vector<std::size_t> order(masks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return masks[a].area > masks[b].area; });
  return order;
}

// Lines and marks that are seen at the size at which one looks at the picture.
int line_width(int width, int height) {
  return std::max(1, std::max(width, height) / 320);
}

void tint(Canvas& canvas, const SamMask& mask, const Colour& colour, int line) {
  const std::vector<std::uint8_t> bytes = decode_runs(mask.runs);
  const int width = mask.runs.width;
  const int height = mask.runs.height;
  const auto inside = [&](int x, int y) {
    return x >= 0 && y >= 0 && x < width && y < height &&
           bytes[static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x)] != 0;
  };
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      if (!inside(x, y)) continue;
      const bool is_edge = !inside(x - line, y) || !inside(x + line, y) || !inside(x, y - line) || !inside(x, y + line);
      is_edge ? canvas.blend(x, y, kWhite, 224) : canvas.blend(x, y, colour, 128);
    }
  }
}

}  // namespace

io::Image draw_mask(const SamMask& mask) {
  io::Image image{.width = mask.runs.width, .height = mask.runs.height};
  const std::vector<std::uint8_t> bytes = decode_runs(mask.runs);
  image.pixels.reserve(3 * bytes.size());
  for (const std::uint8_t byte : bytes) image.pixels.insert(image.pixels.end(), 3, byte != 0 ? 255 : 0);
  return image;
}

io::Image draw_segments(int width, int height, const std::vector<SamMask>& masks) {
  io::Image image{.width = width, .height = height};
  image.pixels.resize(3 * static_cast<std::size_t>(std::max(width, 0)) * static_cast<std::size_t>(std::max(height, 0)));
  io::check_image("draw_segments", image);
  for (const std::size_t number : by_area(masks)) {
    check_size("draw_segments", masks[number], width, height);
    const std::vector<std::uint8_t> bytes = decode_runs(masks[number].runs);
    const Colour colour = colour_of(number);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] == 0) continue;
      for (std::size_t c = 0; c < 3; ++c) image.pixels[3 * i + c] = static_cast<std::uint8_t>(colour[c]);
    }
  }
  return image;
}

io::Image draw_overlay(const io::Image& picture, const std::vector<SamMask>& masks, const SamPrompt& prompt) {
  io::check_image("draw_overlay", picture);
  io::Image image = picture;
  Canvas canvas(image);
  const int line = line_width(image.width, image.height);
  for (const std::size_t number : by_area(masks)) {
    check_size("draw_overlay", masks[number], image.width, image.height);
    tint(canvas, masks[number], colour_of(number), line);
  }
  if (prompt.box) canvas.frame(*prompt.box, line, kForeground);
  for (const SamPoint& point : prompt.points) {
    const int x = static_cast<int>(point.x);
    const int y = static_cast<int>(point.y);
    canvas.disc(x, y, 4 * line, kWhite);
    canvas.disc(x, y, 3 * line, point.foreground ? kForeground : kBackground);
  }
  return image;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
