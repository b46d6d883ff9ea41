// What a plot is drawn on: lines, dots and text, in pixels from the top left corner. One canvas writes SVG, the other
// pixels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/io/image.h>

namespace lockstep {
inline namespace v0 {
namespace train {

struct Colour {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;
};

using CanvasPoint = std::pair<double, double>;

enum class Anchor : std::uint8_t { start, middle, end };

class Canvas {
 public:
  virtual ~Canvas() = default;
  virtual void line(const std::vector<CanvasPoint>& points, Colour colour, double width) = 0;
  virtual void dot(CanvasPoint centre, double radius, Colour colour) = 0;
  /// The baseline begins, is centred, or ends at `at`.
  virtual void text(CanvasPoint at, std::string_view text, double size, Colour colour, Anchor anchor) = 0;
};

class SvgCanvas : public Canvas {
 public:
  SvgCanvas(int width, int height);
  void line(const std::vector<CanvasPoint>& points, Colour colour, double width) override;
  void dot(CanvasPoint centre, double radius, Colour colour) override;
  void text(CanvasPoint at, std::string_view text, double size, Colour colour, Anchor anchor) override;
  std::string finish() const { return document_ + "</svg>\n"; }

 private:
  std::string document_;
};

class PixelCanvas : public Canvas {
 public:
  /// White.
  PixelCanvas(int width, int height);
  /// Draws on a picture.
  explicit PixelCanvas(io::Image image) : image_(std::move(image)) {}
  /// Of the text when it is drawn in this size.
  static double text_width(std::string_view text, double size);
  void line(const std::vector<CanvasPoint>& points, Colour colour, double width) override;
  void dot(CanvasPoint centre, double radius, Colour colour) override;
  void text(CanvasPoint at, std::string_view text, double size, Colour colour, Anchor anchor) override;
  const io::Image& image() const { return image_; }

 private:
  // Draws the parts of a stroke as one shape, so that they do not darken each other where they meet.
  void stroke(const std::vector<CanvasPoint>& points, Colour colour, double width);

  io::Image image_;
};

}  // namespace train
}  // namespace v0
}  // namespace lockstep
