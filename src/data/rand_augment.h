// The ops of RandAugment, one by one: torchvision's on pictures of bytes. The values of a picture are here whole
// numbers from 0 to 255.
#pragma once

#include <cstdint>

#include "data/picture.h"

namespace lockstep {
inline namespace v0 {
namespace data {

/// In the order of torchvision's list, which the draws count in.
enum class AugmentOp : std::uint8_t {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  auto_contrast,
  equalize
};
constexpr int kAugmentOps = 14;

/// torchvision's magnitude for a picture of height x width, and whether it has a random sign.
struct Magnitude {
  float value = 0;
  bool is_signed = false;
};
Magnitude magnitude_of(AugmentOp op, const RandAugment& step, int height, int width);

/// torchvision: _apply_op with InterpolationMode.NEAREST; `fill` is a byte.
void apply_op(AugmentOp op, float magnitude, float fill, Picture& picture);

}  // namespace data
}  // namespace v0
}  // namespace lockstep
