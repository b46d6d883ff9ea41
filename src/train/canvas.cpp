#include "train/canvas.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "train/stroke_font.h"

namespace lockstep {
inline namespace v0 {
namespace train {
namespace {

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return result;
}

std::string hex(Colour colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour.red, colour.green, colour.blue);
}

double distance_to_segment(CanvasPoint p, CanvasPoint a, CanvasPoint b) {
  const double along_x = b.first - a.first;
  const double along_y = b.second - a.second;
  const double length_squared = along_x * along_x + along_y * along_y;
  double t = 0;
  if (length_squared > 0) {
    t = std::clamp(((p.first - a.first) * along_x + (p.second - a.second) * along_y) / length_squared, 0.0, 1.0);
  }
  return std::hypot(p.first - a.first - t * along_x, p.second - a.second - t * along_y);
}

}  // namespace

// --- SVG ------------------------------------------------------------------------------------------------------------

SvgCanvas::SvgCanvas(int width, int height)
    : document_(
          fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
                      "font-family=\"system-ui, sans-serif\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
                      width, height)) {}

void SvgCanvas::line(const std::vector<CanvasPoint>& points, Colour colour, double width) {
  document_ += fmt::format(
      "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\" stroke-linecap=\"round\" "
      "points=\"",
      hex(colour), width);
  for (const CanvasPoint& point : points) document_ += fmt::format("{:.1f},{:.1f} ", point.first, point.second);
  document_ += "\"/>\n";
}

void SvgCanvas::dot(CanvasPoint centre, double radius, Colour colour) {
  document_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\"/>\n", centre.first, centre.second,
                           radius, hex(colour));
}

void SvgCanvas::text(CanvasPoint at, std::string_view text, double size, Colour colour, Anchor anchor) {
  constexpr const char* kAnchors[] = {"start", "middle", "end"};
  document_ +=
      fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" fill=\"{}\" text-anchor=\"{}\">{}</text>\n",
                  at.first, at.second, size, hex(colour), kAnchors[static_cast<int>(anchor)], escaped(text));
}

// --- pixels ---------------------------------------------------------------------------------------------------------

PixelCanvas::PixelCanvas(int width, int height)
    : image_{.width = width,
             .height = height,
             .pixels = std::vector<std::uint8_t>(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3,
                                                 255)} {}

void PixelCanvas::stroke(const std::vector<CanvasPoint>& points, Colour colour, double width) {
  if (points.empty()) return;
  // Nearest distance of each pixel of the bounding box that the pen reaches.
  const double reach = width / 2 + 1;
  const auto [left, right] = std::minmax_element(points.begin(), points.end());
  const auto [top, bottom] = std::minmax_element(
      points.begin(), points.end(), [](const CanvasPoint& a, const CanvasPoint& b) { return a.second < b.second; });
  const auto bound = [](double value, int size) {
    return std::clamp(static_cast<int>(std::floor(value)), 0, size - 1);
  };
  const int x0 = bound(left->first - reach, image_.width), x1 = bound(right->first + reach, image_.width);
  const int y0 = bound(top->second - reach, image_.height), y1 = bound(bottom->second + reach, image_.height);
  const auto columns = static_cast<std::size_t>(x1 - x0 + 1);
  std::vector<double> nearest(columns * static_cast<std::size_t>(y1 - y0 + 1), std::numeric_limits<double>::max());
  for (std::size_t i = 0; i < points.size(); ++i) {
    const CanvasPoint a = points[i];
    const CanvasPoint b = points[std::min(i + 1, points.size() - 1)];
    const int last_y = std::min(bound(std::max(a.second, b.second) + reach, image_.height), y1);
    const int last_x = std::min(bound(std::max(a.first, b.first) + reach, image_.width), x1);
    for (int y = std::max(bound(std::min(a.second, b.second) - reach, image_.height), y0); y <= last_y; ++y) {
      for (int x = std::max(bound(std::min(a.first, b.first) - reach, image_.width), x0); x <= last_x; ++x) {
        double& distance = nearest[static_cast<std::size_t>(y - y0) * columns + static_cast<std::size_t>(x - x0)];
        distance = std::min(distance, distance_to_segment({x + 0.5, y + 0.5}, a, b));
      }
    }
  }
  for (int y = y0; y <= y1; ++y) {
    for (int x = x0; x <= x1; ++x) {
      const double distance = nearest[static_cast<std::size_t>(y - y0) * columns + static_cast<std::size_t>(x - x0)];
      const double cover = std::clamp(width / 2 + 0.5 - distance, 0.0, 1.0) * std::min(width, 1.0);
      if (cover <= 0) continue;
      std::uint8_t* pixel =
          image_.pixels.data() +
          (static_cast<std::size_t>(y) * static_cast<std::size_t>(image_.width) + static_cast<std::size_t>(x)) * 3;
      const std::uint8_t ink[] = {colour.red, colour.green, colour.blue};
      for (int c = 0; c < 3; ++c)
        pixel[c] = static_cast<std::uint8_t>(std::lround(pixel[c] + (ink[c] - pixel[c]) * cover));
    }
  }
}

void PixelCanvas::line(const std::vector<CanvasPoint>& points, Colour colour, double width) {
  stroke(points, colour, width);
}

void PixelCanvas::dot(CanvasPoint centre, double radius, Colour colour) {
  stroke({centre}, colour, 2 * radius);
}

double PixelCanvas::text_width(std::string_view text, double size) {
  return static_cast<double>(text.size()) * kFontAdvance * size / kFontHeight;
}

void PixelCanvas::text(CanvasPoint at, std::string_view text, double size, Colour colour, Anchor anchor) {
  const double unit = size / kFontHeight;
  const double length = text_width(text, size);
  double x = at.first - (anchor == Anchor::start ? 0 : anchor == Anchor::middle ? length / 2 : length);
  for (const char letter : text) {
    for (const std::vector<GridPoint>& line : glyph(letter)) {
      std::vector<CanvasPoint> points;
      for (const GridPoint& p : line)
        points.emplace_back(x + p.first * unit, at.second + (p.second - kFontBaseline) * unit);
      stroke(points, colour, size / 10);
    }
    x += kFontAdvance * unit;
  }
}

}  // namespace train
}  // namespace v0
}  // namespace lockstep
