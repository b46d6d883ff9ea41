// One picture on the host, and the steps of transforms.h on it.
#pragma once

#include <vector>

#include <lockstep/data/transforms.h>

#include "data/random.h"

namespace lockstep {
inline namespace v0 {
namespace data {

/// Height and width: far more than any file holds, and no product of two overflows.
constexpr int kMaxSide = 1 << 16;

struct Picture {
  int channels = 0;
  int height = 0;
  int width = 0;
  std::vector<float> values;  ///< plane after plane, rows from the top
  std::vector<float> spare;   ///< where a step writes before it swaps, kept from picture to picture

  float* row(std::vector<float>& of, int channel, int y) const {
    return of.data() +
           (static_cast<std::size_t>(channel) * static_cast<std::size_t>(height) + static_cast<std::size_t>(y)) *
               static_cast<std::size_t>(width);
  }
};

/// From pixels of the result to pixels of the source: x' = m[0] x + m[1] y + m[2], y' = m[3] x + m[4] y + m[5].
struct AffineMap {
  float m[6];
};
AffineMap draw_affine(const RandomAffine& step, int height, int width, RandomStream& random);
void warp(Picture& picture, const AffineMap& map, float fill);

void apply(const RandomCrop& step, Picture& picture, RandomStream& random);
void apply(const RandomHorizontalFlip& step, Picture& picture, RandomStream& random);
void apply(const Normalize& step, Picture& picture, RandomStream& random);
void apply(const RandomAffine& step, Picture& picture, RandomStream& random);
void apply(const Cutout& step, Picture& picture, RandomStream& random);
void apply(const RandomVerticalFlip& step, Picture& picture, RandomStream& random);
void apply(const RandomResizedCrop& step, Picture& picture, RandomStream& random);
void apply(const ColorJitter& step, Picture& picture, RandomStream& random);
void apply(const RandAugment& step, Picture& picture, RandomStream& random);

}  // namespace data
}  // namespace v0
}  // namespace lockstep
