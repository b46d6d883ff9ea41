#include "data/rand_augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {
namespace data {
namespace {

constexpr float kBytes = 255.0f;
constexpr float kDegree = 0x1.1df46ap-6f;  // pi / 180

std::size_t plane_size(const Picture& picture) {
  return static_cast<std::size_t>(picture.height) * static_cast<std::size_t>(picture.width);
}

// The whole number in [0, 255] that a conversion to a byte makes: torchvision cuts off.
float byte_of(float value) {
  return std::floor(std::clamp(value, 0.0f, kBytes));
}
float blended(float one, float other, float ratio, float rest) {
  return byte_of(ratio * one + rest * other);
}

// Element `i` of torch.linspace(from, to, count).
float of_linspace(double from, double to, int count, int i) {
  const auto first = static_cast<float>(from);
  const auto last = static_cast<float>(to);
  const float step = (last - first) / static_cast<float>(count - 1);
  if (i < count / 2) return first + step * static_cast<float>(i);
  return last - step * static_cast<float>(count - 1 - i);
}

// Every pixel from the nearest one to m * (x, y) about a centre, moved; coordinates are those of pixels' middles.
void move_pixels(Picture& picture, const AffineMap& map, float fill) {
  picture.spare.resize(picture.values.size());
  const std::size_t plane = plane_size(picture);
  for (int y = 0; y < picture.height; ++y) {
    for (int x = 0; x < picture.width; ++x) {
      const auto column = static_cast<float>(x);
      const auto line = static_cast<float>(y);
      const float from_x = std::nearbyint(map.m[0] * column + map.m[1] * line + map.m[2]);
      const float from_y = std::nearbyint(map.m[3] * column + map.m[4] * line + map.m[5]);
      const bool inside = from_x >= 0 && from_y >= 0 && from_x < static_cast<float>(picture.width) &&
                          from_y < static_cast<float>(picture.height);
      for (int c = 0; c < picture.channels; ++c) {
        const auto channel = static_cast<std::size_t>(c);
        const std::size_t to = channel * plane + static_cast<std::size_t>(y) * static_cast<std::size_t>(picture.width) +
                               static_cast<std::size_t>(x);
        picture.spare[to] =
            inside ? picture.row(picture.values, c, static_cast<int>(from_y))[static_cast<int>(from_x)] : fill;
      }
    }
  }
  picture.values.swap(picture.spare);
}

AffineMap map_of(AugmentOp op, float magnitude, const Picture& picture) {
  // Shears are about the corner of the first pixel, half a pixel from its middle.
  if (op == AugmentOp::shear_x) return {{1, magnitude, magnitude * 0.5f, 0, 1, 0}};
  if (op == AugmentOp::shear_y) return {{1, 0, 0, magnitude, 1, magnitude * 0.5f}};
  if (op == AugmentOp::translate_x) return {{1, 0, -std::trunc(magnitude), 0, 1, 0}};
  if (op == AugmentOp::translate_y) return {{1, 0, 0, 0, 1, -std::trunc(magnitude)}};
  const float cosine = scalar::ls_cos(magnitude * kDegree);
  const float sine = scalar::ls_sin(magnitude * kDegree);
  const float middle_x = static_cast<float>(picture.width - 1) / 2;
  const float middle_y = static_cast<float>(picture.height - 1) / 2;
  return {{cosine, -sine, middle_x - (cosine * middle_x - sine * middle_y),  //
           sine, cosine, middle_y - (sine * middle_x + cosine * middle_y)}};
}

float grey_of(const Picture& picture, std::size_t i) {
  const std::size_t plane = plane_size(picture);
  const float* const v = picture.values.data();
  return byte_of(0.2989f * v[i] + 0.587f * v[plane + i] + 0.114f * v[2 * plane + i]);
}

void change_colour(Picture& picture, float ratio, float rest) {
  if (picture.channels != 3) return;
  const std::size_t plane = plane_size(picture);
  for (std::size_t i = 0; i < plane; ++i) {
    const float grey = grey_of(picture, i);
    for (std::size_t c = 0; c < 3; ++c) {
      float& value = picture.values[c * plane + i];
      value = blended(value, grey, ratio, rest);
    }
  }
}

void change_contrast_of_bytes(Picture& picture, float ratio, float rest) {
  const std::size_t plane = plane_size(picture);
  double sum = 0;  // of whole numbers: exact
  for (std::size_t i = 0; i < plane; ++i) {
    sum += static_cast<double>(picture.channels == 3 ? grey_of(picture, i) : picture.values[i]);
  }
  const auto mean = static_cast<float>(sum / static_cast<double>(plane));
  for (float& value : picture.values) value = blended(value, mean, ratio, rest);
}

// Between the picture and its smoothed form: the middle counts five times, its eight neighbours once; a border's smoothed
// form is the border, which blending may still make darker by a last bit that is cut off.
void sharpen(Picture& picture, float ratio, float rest) {
  if (picture.height <= 2 || picture.width <= 2) return;
  picture.spare = picture.values;
  for (int c = 0; c < picture.channels; ++c) {
    for (int y = 0; y < picture.height; ++y) {
      for (int x = 0; x < picture.width; ++x) {
        float& value = picture.row(picture.values, c, y)[x];
        float smooth = value;
        if (y > 0 && x > 0 && y + 1 < picture.height && x + 1 < picture.width) {
          float sum = 4 * value;
          for (int dy = -1; dy <= 1; ++dy) {
            for (int dx = -1; dx <= 1; ++dx) sum += picture.row(picture.spare, c, y + dy)[x + dx];
          }
          smooth = std::nearbyint(sum / 13.0f);
        }
        value = blended(value, smooth, ratio, rest);
      }
    }
  }
}

void stretch_contrast(float* values, std::size_t count) {
  const auto [low, high] = std::minmax_element(values, values + count);
  const float least = *low;
  const float range = *high - least;
  if (range == 0) return;
  const float scale = kBytes / range;
  for (std::size_t i = 0; i < count; ++i) values[i] = byte_of((values[i] - least) * scale);
}

void equalize(float* values, std::size_t count) {
  std::array<std::int64_t, 256> histogram{};
  for (std::size_t i = 0; i < count; ++i) ++histogram[static_cast<std::size_t>(values[i])];
  const auto last = std::find_if(histogram.rbegin(), histogram.rend(), [](std::int64_t n) { return n != 0; });
  const std::int64_t step = (static_cast<std::int64_t>(count) - *last) / 255;
  if (step == 0) return;
  std::array<float, 256> table{};
  std::int64_t below = 0;
  for (std::size_t v = 0; v < table.size(); ++v) {
    table[v] = static_cast<float>(std::min<std::int64_t>((below + step / 2) / step, 255));
    below += histogram[v];
  }
  table[0] = 0;
  for (std::size_t i = 0; i < count; ++i) values[i] = table[static_cast<std::size_t>(values[i])];
}

}  // namespace

Magnitude magnitude_of(AugmentOp op, const RandAugment& step, int height, int width) {
  const auto linspace = [&](double from, double to) { return of_linspace(from, to, step.bins, step.magnitude); };
  switch (op) {
    case AugmentOp::identity:
    case AugmentOp::auto_contrast:
    case AugmentOp::equalize: return {};
    case AugmentOp::shear_x:
    case AugmentOp::shear_y: return {linspace(0, 0.3), true};
    case AugmentOp::translate_x: return {linspace(0, 150.0 / 331.0 * width), true};
    case AugmentOp::translate_y: return {linspace(0, 150.0 / 331.0 * height), true};
    case AugmentOp::rotate: return {linspace(0, 30), true};
    case AugmentOp::brightness:
    case AugmentOp::color:
    case AugmentOp::contrast:
    case AugmentOp::sharpness: return {linspace(0, 0.9), true};
    case AugmentOp::posterize: {
      const float steps = static_cast<float>(step.bins - 1) / 4;
      return {8 - std::nearbyint(static_cast<float>(step.magnitude) / steps), false};
    }
    case AugmentOp::solarize: return {linspace(255, 0), false};
  }
  return {};
}

void apply_op(AugmentOp op, float magnitude, float fill, Picture& picture) {
  // As Python has them: a factor in f64, and what is left of 1.
  const double factor = 1.0 + static_cast<double>(magnitude);
  const auto ratio = static_cast<float>(factor);
  const auto rest = static_cast<float>(1.0 - factor);
  const std::size_t plane = plane_size(picture);
  switch (op) {
    case AugmentOp::identity: return;
    case AugmentOp::shear_x:
    case AugmentOp::shear_y:
    case AugmentOp::translate_x:
    case AugmentOp::translate_y:
    case AugmentOp::rotate: return move_pixels(picture, map_of(op, magnitude, picture), fill);
    case AugmentOp::brightness:
      for (float& value : picture.values) value = blended(value, 0, ratio, rest);
      return;
    case AugmentOp::color: return change_colour(picture, ratio, rest);
    case AugmentOp::contrast: return change_contrast_of_bytes(picture, ratio, rest);
    case AugmentOp::sharpness: return sharpen(picture, ratio, rest);
    case AugmentOp::posterize: {
      const int mask = -(1 << (8 - static_cast<int>(magnitude)));
      for (float& value : picture.values) value = static_cast<float>(static_cast<int>(value) & mask);
      return;
    }
    case AugmentOp::solarize:
      for (float& value : picture.values) value = value >= magnitude ? kBytes - value : value;
      return;
    case AugmentOp::auto_contrast:
    case AugmentOp::equalize:
      for (int c = 0; c < picture.channels; ++c) {
        float* const values = picture.values.data() + static_cast<std::size_t>(c) * plane;
        op == AugmentOp::equalize ? equalize(values, plane) : stretch_contrast(values, plane);
      }
      return;
  }
}

void apply(const RandAugment& step, Picture& picture, RandomStream& random) {
  if (picture.channels != 1 && picture.channels != 3) {
    throw ShapeError(fmt::format("RandAugment: a picture has 1 or 3 channels, not {}", picture.channels));
  }
  // NaN becomes 0: the ops look values up in tables.
  for (float& value : picture.values) value = value > 0 ? std::nearbyint(std::min(value, 1.0f) * kBytes) : 0.0f;
  const float fill = std::nearbyint(step.fill * kBytes);
  for (int i = 0; i < step.ops; ++i) {
    const auto op = static_cast<AugmentOp>(random.below(kAugmentOps));
    const Magnitude magnitude = magnitude_of(op, step, picture.height, picture.width);
    const bool negative = magnitude.is_signed && random.below(2) == 1;
    apply_op(op, negative ? -magnitude.value : magnitude.value, fill, picture);
  }
  for (float& value : picture.values) value /= kBytes;
}

}  // namespace data
}  // namespace v0
}  // namespace lockstep
