// Resizing with antialiasing, to the same bits as Pillow 13: a separable filter, coefficients rounded to 22-bit fixed
// point, 8-bit pixels between the passes. The horizontal pass comes first unless it widens while the vertical one
// lowers; earlier versions of Pillow have no such exception, and differ there by a few grey levels.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/io/image.h>

#include "core/checked.h"
#include "io/image_check.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

constexpr int kFractionBits = 22;  // 8 bits of pixel, 2 of headroom for negative lobes, 32 in all

double triangle(double x) {
  x = std::fabs(x);
  return x < 1.0 ? 1.0 - x : 0.0;
}

double cubic(double x) {
  constexpr double a = -0.5;
  x = std::fabs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
  return 0.0;
}

// For one output pixel: which input pixels it is made of, and their weights in fixed point.
struct Window {
  int first = 0;
  std::vector<std::int32_t> weights;
};

std::vector<Window> make_windows(int input, int output, ResizeFilter filter) {
  double (*const weight_at)(double) = filter == ResizeFilter::bilinear ? triangle : cubic;
  const double radius = filter == ResizeFilter::bilinear ? 1.0 : 2.0;
  const double scale = static_cast<double>(input) / output;
  const double stretch = std::max(scale, 1.0);  // shrinking widens the filter
  const double support = radius * stretch;
  const double per_stretch = 1.0 / stretch;

  std::vector<Window> windows(static_cast<std::size_t>(output));
  std::vector<double> weights;
  for (int i = 0; i < output; ++i) {
    const double center = (i + 0.5) * scale;
    const int first = std::max(static_cast<int>(center - support + 0.5), 0);
    const int last = std::min(static_cast<int>(center + support + 0.5), input);
    weights.clear();
    double sum = 0.0;
    for (int x = first; x < last; ++x) {
      weights.push_back(weight_at((x - center + 0.5) * per_stretch));
      sum += weights.back();
    }
    Window& window = windows[static_cast<std::size_t>(i)];
    window.first = first;
    for (const double weight : weights) {
      const double scaled = (sum != 0.0 ? weight / sum : weight) * (1 << kFractionBits);
      window.weights.push_back(static_cast<std::int32_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5));
    }
  }
  return windows;
}

std::uint8_t round_pixel(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
}

// One pass over an image seen as [outer, length, inner] bytes: along `length`, which becomes windows.size().
std::vector<std::uint8_t> filter_axis(const std::vector<std::uint8_t>& source, std::size_t outer, std::size_t length,
                                      std::size_t inner, const std::vector<Window>& windows) {
  std::vector<std::uint8_t> result(outer * windows.size() * inner);
  std::vector<std::int32_t> sums(inner);
  std::uint8_t* target = result.data();
  for (std::size_t o = 0; o < outer; ++o) {
    for (const Window& window : windows) {
      std::fill(sums.begin(), sums.end(), 1 << (kFractionBits - 1));
      const std::uint8_t* pixel = source.data() + (o * length + static_cast<std::size_t>(window.first)) * inner;
      for (const std::int32_t weight : window.weights) {
        for (std::size_t i = 0; i < inner; ++i) sums[i] += pixel[i] * weight;
        pixel += inner;
      }
      for (std::size_t i = 0; i < inner; ++i) *target++ = round_pixel(sums[i]);
    }
  }
  return result;
}

}  // namespace

Image resize(const Image& image, int width, int height, ResizeFilter filter) {
  check_image("resize", image);
  const bool vertical_first = width > image.width && height < image.height;
  const auto area = static_cast<std::int64_t>(width) * height;
  const auto between = vertical_first ? static_cast<std::int64_t>(image.width) * height
                                      : static_cast<std::int64_t>(width) * image.height;
  if (width <= 0 || height <= 0 || std::max(area, between) > kMaxImagePixels) {
    throw ValueError(
        fmt::format("resize: cannot make {} x {} of {} x {}: sizes must be positive, and the result and the "
                    "image between the passes may have {} pixels",
                    width, height, image.width, image.height, kMaxImagePixels));
  }
  Image result = image;
  const auto pass_horizontally = [&] {
    if (width == result.width) return;
    result.pixels = filter_axis(result.pixels, static_cast<std::size_t>(result.height),
                                static_cast<std::size_t>(result.width), 3, make_windows(result.width, width, filter));
    result.width = width;
  };
  const auto pass_vertically = [&] {
    if (height == result.height) return;
    result.pixels =
        filter_axis(result.pixels, 1, static_cast<std::size_t>(result.height),
                    static_cast<std::size_t>(result.width) * 3, make_windows(result.height, height, filter));
    result.height = height;
  };
  if (vertical_first) {
    pass_vertically();
    pass_horizontally();
  } else {
    pass_horizontally();
    pass_vertically();
  }
  return result;
}

Image resize_shorter_side(const Image& image, int size, ResizeFilter filter) {
  check_image("resize_shorter_side", image);
  const int shorter = std::min(image.width, image.height);
  const int longer = std::max(image.width, image.height);
  const std::int64_t longer_size = static_cast<std::int64_t>(size) * longer / shorter;
  if (size <= 0 || longer_size > kMaxImagePixels) {
    throw ValueError(fmt::format("resize_shorter_side: cannot make the shorter side of {} x {} {} pixels long",
                                 image.width, image.height, size));
  }
  const int other = static_cast<int>(longer_size);
  return image.width <= image.height ? resize(image, size, other, filter) : resize(image, other, size, filter);
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
