#include "data/picture.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {
namespace data {
namespace {

constexpr float kRadians = 0x1.1df46ap-6f;  // pi / 180

std::size_t area(int height, int width) {
  return static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
}

// `value` where the coordinates are inside the picture.
struct Plane {
  const float* values;
  int height;
  int width;
  float fill;

  float at(int x, int y) const {
    const bool inside = static_cast<unsigned>(x) < static_cast<unsigned>(width) &&
                        static_cast<unsigned>(y) < static_cast<unsigned>(height);
    return inside ? values[area(y, width) + static_cast<std::size_t>(x)] : fill;
  }
};

}  // namespace

void apply(const RandomCrop& step, Picture& picture, RandomStream& random) {
  const int height = step.height == 0 ? picture.height : step.height;
  const int width = step.width == 0 ? picture.width : step.width;
  const int free_rows = picture.height + 2 * step.padding - height;
  const int free_columns = picture.width + 2 * step.padding - width;
  if (free_rows < 0 || free_columns < 0) {
    throw ShapeError(fmt::format("RandomCrop: {} x {} is not in a picture of {} x {} with a padding of {}", height,
                                 width, picture.height, picture.width, step.padding));
  }
  const int top = static_cast<int>(random.below(static_cast<std::uint64_t>(free_rows) + 1)) - step.padding;
  const int left = static_cast<int>(random.below(static_cast<std::uint64_t>(free_columns) + 1)) - step.padding;
  picture.spare.assign(static_cast<std::size_t>(picture.channels) * area(height, width), step.fill);
  // The columns of the result that lie in the picture.
  const int begin = std::max(0, -left);
  const int end = std::min(width, picture.width - left);
  float* out = picture.spare.data();
  for (int c = 0; c < picture.channels; ++c) {
    for (int y = 0; y < height; ++y, out += width) {
      const int from = y + top;
      if (from < 0 || from >= picture.height || begin >= end) continue;
      const float* row = picture.row(picture.values, c, from);
      std::copy(row + (left + begin), row + (left + end), out + begin);
    }
  }
  picture.values.swap(picture.spare);
  picture.height = height;
  picture.width = width;
}

void apply(const RandomHorizontalFlip& step, Picture& picture, RandomStream& random) {
  if (random.uniform() >= step.probability) return;
  for (int c = 0; c < picture.channels; ++c) {
    for (int y = 0; y < picture.height; ++y) {
      float* row = picture.row(picture.values, c, y);
      std::reverse(row, row + picture.width);
    }
  }
}

void apply(const Normalize& step, Picture& picture, RandomStream&) {
  const auto channels = static_cast<std::size_t>(picture.channels);
  const auto check = [&](const char* name, const std::vector<float>& values) {
    if (values.size() == 1 || values.size() == channels) return;
    throw ShapeError(
        fmt::format("Normalize: {} of {} values for pictures of {} channels", name, values.size(), channels));
  };
  check("a mean", step.mean);
  check("a deviation", step.deviation);
  const std::size_t plane = area(picture.height, picture.width);
  for (std::size_t c = 0; c < channels; ++c) {
    const float mean = step.mean[step.mean.size() == 1 ? 0 : c];
    const float deviation = step.deviation[step.deviation.size() == 1 ? 0 : c];
    float* values = picture.values.data() + c * plane;
    for (std::size_t i = 0; i < plane; ++i) values[i] = (values[i] - mean) / deviation;
  }
}

AffineMap draw_affine(const RandomAffine& step, int height, int width, RandomStream& random) {
  const float angle = random.uniform(-step.degrees, step.degrees) * kRadians;
  const float move_x = random.uniform(-step.translate, step.translate) * static_cast<float>(width);
  const float move_y = random.uniform(-step.translate, step.translate) * static_cast<float>(height);
  const float scale = random.uniform(step.scale_min, step.scale_max);
  const float shear = random.uniform(-step.shear, step.shear) * kRadians;
  // The picture is sheared, turned, scaled, moved; the map is the inverse of that. Sines and cosines are the project's
  // own: the C library's differ between machines.
  const float cosine = scalar::ls_cos(angle);
  const float sine = scalar::ls_sin(angle);
  const float tangent = scalar::ls_sin(shear) / scalar::ls_cos(shear);
  AffineMap map{{(cosine - sine * tangent) / scale, (sine + cosine * tangent) / scale, 0,  //
                 -sine / scale, cosine / scale, 0}};
  const float middle_x = static_cast<float>(width - 1) / 2;
  const float middle_y = static_cast<float>(height - 1) / 2;
  const float x = middle_x + move_x;
  const float y = middle_y + move_y;
  map.m[2] = middle_x - (map.m[0] * x + map.m[1] * y);
  map.m[5] = middle_y - (map.m[3] * x + map.m[4] * y);
  return map;
}

void warp(Picture& picture, const AffineMap& map, float fill) {
  const std::size_t plane_size = area(picture.height, picture.width);
  picture.spare.resize(picture.values.size());
  for (int y = 0; y < picture.height; ++y) {
    for (int x = 0; x < picture.width; ++x) {
      const auto column = static_cast<float>(x);
      const auto line = static_cast<float>(y);
      // Far outside everything is `fill`; the bounds keep the conversion to int defined.
      const float from_x =
          std::clamp(map.m[0] * column + map.m[1] * line + map.m[2], -2.0f, static_cast<float>(picture.width) + 1);
      const float from_y =
          std::clamp(map.m[3] * column + map.m[4] * line + map.m[5], -2.0f, static_cast<float>(picture.height) + 1);
      const float left = std::floor(from_x);
      const float top = std::floor(from_y);
      const float right_share = from_x - left;
      const float bottom_share = from_y - top;
      const int x0 = static_cast<int>(left);
      const int y0 = static_cast<int>(top);
      for (int c = 0; c < picture.channels; ++c) {
        const Plane plane{picture.values.data() + static_cast<std::size_t>(c) * plane_size, picture.height,
                          picture.width, fill};
        const float upper = plane.at(x0, y0) * (1 - right_share) + plane.at(x0 + 1, y0) * right_share;
        const float lower = plane.at(x0, y0 + 1) * (1 - right_share) + plane.at(x0 + 1, y0 + 1) * right_share;
        picture.row(picture.spare, c, y)[x] = upper * (1 - bottom_share) + lower * bottom_share;
      }
    }
  }
  picture.values.swap(picture.spare);
}

void apply(const RandomAffine& step, Picture& picture, RandomStream& random) {
  warp(picture, draw_affine(step, picture.height, picture.width, random), step.fill);
}

void apply(const Cutout& step, Picture& picture, RandomStream& random) {
  const int x = static_cast<int>(random.below(static_cast<std::uint64_t>(picture.width))) - step.size / 2;
  const int y = static_cast<int>(random.below(static_cast<std::uint64_t>(picture.height))) - step.size / 2;
  for (int c = 0; c < picture.channels; ++c) {
    for (int line = std::max(0, y); line < std::min(picture.height, y + step.size); ++line) {
      float* row = picture.row(picture.values, c, line);
      std::fill(row + std::max(0, x), row + std::min(picture.width, x + step.size), step.fill);
    }
  }
}

}  // namespace data
}  // namespace v0
}  // namespace lockstep
