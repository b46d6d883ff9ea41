#include "cli/detection_drawing.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "train/canvas.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

using train::Colour;

// Dark enough for white letters, and far from each other.
constexpr std::array<Colour, 10> kBoxColours{{{31, 99, 210},
                                              {200, 60, 30},
                                              {20, 130, 70},
                                              {140, 60, 180},
                                              {180, 110, 0},
                                              {0, 125, 140},
                                              {190, 40, 110},
                                              {95, 95, 30},
                                              {80, 80, 160},
                                              {120, 70, 40}}};
constexpr Colour kWhiteText{255, 255, 255};

void fill(train::PixelCanvas& canvas, double x0, double y0, double x1, double y1, Colour colour) {
  const double middle = (y0 + y1) / 2;
  canvas.line({{x0, middle}, {x1, middle}}, colour, y1 - y0);
}

}  // namespace

io::Image draw_detections(const io::Image& picture, const std::vector<models::Detection>& objects,
                          const std::vector<std::string>& labels) {
  train::PixelCanvas canvas(picture);
  const double size = std::clamp(std::min(picture.width, picture.height) / 32.0, 9.0, 28.0);
  const double width = std::max(size / 6, 1.5);
  for (std::size_t i = objects.size(); i-- > 0;) {
    const models::Detection& found = objects[i];
    const auto label = static_cast<std::size_t>(found.label);
    const Colour colour = kBoxColours[label % kBoxColours.size()];
    const auto [x0, y0, x1, y1] = std::array<double, 4>{found.x0, found.y0, found.x1, found.y1};
    canvas.line({{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}, {x0, y0}}, colour, width);
    const std::string text = fmt::format("{} {:.0f}%", labels[label], 100.0 * static_cast<double>(found.score));
    // Above the box, or inside where there is no room.
    const double height = 1.5 * size;
    const double top = y0 >= height ? y0 - height : y0;
    const double length = train::PixelCanvas::text_width(text, size) + size;
    fill(canvas, x0 - width / 2, top, x0 + length, top + height, colour);
    canvas.text({x0 + size / 2, top + 1.1 * size}, text, size, kWhiteText, train::Anchor::start);
  }
  return canvas.image();
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
