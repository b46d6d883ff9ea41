// Crops that are stretched, vertical flips, and colours.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "data/picture.h"
#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {
namespace data {
namespace {

constexpr std::array<float, 3> kLuma = {0.2989f, 0.587f, 0.114f};  // torchvision's

struct Part {
  int top, left, height, width;
};

Part draw_part(const RandomResizedCrop& step, int height, int width, RandomStream& random) {
  const auto area = static_cast<float>(height) * static_cast<float>(width);
  const float low = scalar::ls_log(step.ratio_min);
  const float high = scalar::ls_log(step.ratio_max);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const float share = area * random.uniform(step.scale_min, step.scale_max);
    const float ratio = scalar::ls_exp(random.uniform(low, high));
    const auto part_width = static_cast<int>(std::nearbyint(std::sqrt(share * ratio)));
    const auto part_height = static_cast<int>(std::nearbyint(std::sqrt(share / ratio)));
    if (part_width < 1 || part_height < 1 || part_width > width || part_height > height) continue;
    const auto top = static_cast<int>(random.below(static_cast<std::uint64_t>(height - part_height) + 1));
    const auto left = static_cast<int>(random.below(static_cast<std::uint64_t>(width - part_width) + 1));
    return {top, left, part_height, part_width};
  }
  Part part{0, 0, height, width};
  const float ratio = static_cast<float>(width) / static_cast<float>(height);
  if (ratio < step.ratio_min) {
    part.height = std::clamp(static_cast<int>(std::nearbyint(static_cast<float>(width) / step.ratio_min)), 1, height);
  } else if (ratio > step.ratio_max) {
    part.width = std::clamp(static_cast<int>(std::nearbyint(static_cast<float>(height) * step.ratio_max)), 1, width);
  }
  part.top = (height - part.height) / 2;
  part.left = (width - part.width) / 2;
  return part;
}

// Where a pixel of a stretched line lies between two of the line: PyTorch's bilinear positions, align_corners off.
struct Between {
  int first, second;
  float weight;  ///< of the second
};
Between between(int pixel, int from, int to) {
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  const float place = std::max((static_cast<float>(pixel) + 0.5f) * scale - 0.5f, 0.0f);
  const int first = std::min(static_cast<int>(place), from - 1);
  return {first, std::min(first + 1, from - 1), place - static_cast<float>(first)};
}

float mixed(float a, float b, float weight) {
  return a * (1.0f - weight) + b * weight;
}

float in_unit(float value) {
  return std::clamp(value, 0.0f, 1.0f);
}

// The three channels of a pixel.
struct Pixel {
  float& r;
  float& g;
  float& b;
};
float luma(const Pixel& p) {
  return kLuma[0] * p.r + kLuma[1] * p.g + kLuma[2] * p.b;
}

// The hue by six sectors, as torchvision's _rgb2hsv and _hsv2rgb.
void turn_hue(const Pixel& p, float turn) {
  const float high = std::max({p.r, p.g, p.b});
  const float low = std::min({p.r, p.g, p.b});
  const float range = high - low;
  if (range == 0.0f) return;
  const float saturation = range / high;
  const float rc = (high - p.r) / range;
  const float gc = (high - p.g) / range;
  const float bc = (high - p.b) / range;
  float hue = high == p.r ? bc - gc : (high == p.g ? 2.0f + rc - bc : 4.0f + gc - rc);
  hue = hue / 6.0f + 1.0f + turn;
  hue = (hue - std::floor(hue)) * 6.0f;
  if (!(hue >= 0.0f && hue < 6.0f)) return;  // NaN, of a pixel that is no colour
  const float sector = std::floor(hue);
  const float rest = hue - sector;
  const float bottom = in_unit(high * (1.0f - saturation));
  const float falling = in_unit(high * (1.0f - saturation * rest));
  const float rising = in_unit(high * (1.0f - saturation * (1.0f - rest)));
  const std::array<std::array<float, 3>, 6> colours = {{{high, rising, bottom},
                                                        {falling, high, bottom},
                                                        {bottom, high, rising},
                                                        {bottom, falling, high},
                                                        {rising, bottom, high},
                                                        {high, bottom, falling}}};
  const std::array<float, 3>& colour = colours[static_cast<std::size_t>(sector) % 6];
  p.r = colour[0];
  p.g = colour[1];
  p.b = colour[2];
}

template <typename Change> void for_each_pixel(Picture& picture, Change change) {
  const std::size_t area = static_cast<std::size_t>(picture.height) * static_cast<std::size_t>(picture.width);
  float* const values = picture.values.data();
  for (std::size_t i = 0; i < area; ++i) change(Pixel{values[i], values[area + i], values[2 * area + i]});
}

void change_contrast(Picture& picture, float factor) {
  double sum = 0;
  std::size_t count = picture.values.size();
  if (picture.channels == 3) {
    for_each_pixel(picture, [&](const Pixel& p) { sum += static_cast<double>(luma(p)); });
    count /= 3;
  } else {
    for (const float value : picture.values) sum += static_cast<double>(value);
  }
  const auto mean = static_cast<float>(sum / static_cast<double>(count));
  for (float& value : picture.values) value = in_unit(mixed(mean, value, factor));
}

}  // namespace

void apply(const RandomVerticalFlip& step, Picture& picture, RandomStream& random) {
  if (random.uniform() >= step.probability) return;
  for (int c = 0; c < picture.channels; ++c) {
    for (int y = 0; y < picture.height / 2; ++y) {
      float* const row = picture.row(picture.values, c, y);
      std::swap_ranges(row, row + picture.width, picture.row(picture.values, c, picture.height - 1 - y));
    }
  }
}

void apply(const RandomResizedCrop& step, Picture& picture, RandomStream& random) {
  const Part part = draw_part(step, picture.height, picture.width, random);
  picture.spare.clear();
  for (int c = 0; c < picture.channels; ++c) {
    for (int y = 0; y < step.height; ++y) {
      const Between rows = between(y, part.height, step.height);
      const float* const upper = picture.row(picture.values, c, part.top + rows.first) + part.left;
      const float* const lower = picture.row(picture.values, c, part.top + rows.second) + part.left;
      for (int x = 0; x < step.width; ++x) {
        const Between columns = between(x, part.width, step.width);
        const float above = mixed(upper[columns.first], upper[columns.second], columns.weight);
        const float below = mixed(lower[columns.first], lower[columns.second], columns.weight);
        picture.spare.push_back(mixed(above, below, rows.weight));
      }
    }
  }
  picture.values.swap(picture.spare);
  picture.height = step.height;
  picture.width = step.width;
}

void apply(const ColorJitter& step, Picture& picture, RandomStream& random) {
  if (picture.channels != 1 && picture.channels != 3) {
    throw ShapeError(fmt::format("ColorJitter: a picture has 1 or 3 channels, not {}", picture.channels));
  }
  const auto factor = [&](float most) { return random.uniform(std::max(0.0f, 1.0f - most), 1.0f + most); };
  const float brightness = factor(step.brightness);
  const float contrast = factor(step.contrast);
  const float saturation = factor(step.saturation);
  const float turn = random.uniform(-step.hue, step.hue);
  std::array<int, 4> order = {0, 1, 2, 3};
  for (std::size_t i = 3; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  const bool has_colours = picture.channels == 3;
  for (const int change : order) {
    if (change == 0 && step.brightness > 0) {
      for (float& value : picture.values) value = in_unit(value * brightness);
    }
    if (change == 1 && step.contrast > 0) change_contrast(picture, contrast);
    if (change == 2 && step.saturation > 0 && has_colours) {
      for_each_pixel(picture, [&](const Pixel& p) {
        const float grey = luma(p);
        for (float* value : {&p.r, &p.g, &p.b}) *value = in_unit(mixed(grey, *value, saturation));
      });
    }
    if (change == 3 && step.hue > 0 && has_colours) {
      for_each_pixel(picture, [&](const Pixel& p) { turn_hue(p, turn); });
    }
  }
}

}  // namespace data
}  // namespace v0
}  // namespace lockstep
