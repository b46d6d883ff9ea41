// What is done to pictures before training: from bytes to floats, and random changes that keep their meaning.
//
//   auto train = ls::data::transform(ls::data::cifar10(folder, ls::data::Split::train),
//                                    {ls::data::RandomCrop{.padding = 4}, ls::data::RandomHorizontalFlip{},
//                                     ls::data::Normalize{{0.491f, 0.482f, 0.447f}, {0.247f, 0.243f, 0.262f}}});
//
// What happens to a picture is decided by the loader's seed, the epoch and the picture's index, whichever thread does
// it.
#pragma once

#include <variant>
#include <vector>

#include <lockstep/data/dataset.h>
#include <lockstep/export.h>

namespace lockstep {
inline namespace v0 {
namespace data {

/// A part of height x width (0: the picture's own) at a random place, after `padding` pixels of value `fill` were put
/// around the picture. torchvision: RandomCrop.
struct RandomCrop {
  int height = 0;
  int width = 0;
  int padding = 0;
  float fill = 0;
};

/// Left becomes right. torchvision: RandomHorizontalFlip.
struct RandomHorizontalFlip {
  float probability = 0.5f;
};

/// The top becomes the bottom. torchvision: RandomVerticalFlip.
struct RandomVerticalFlip {
  float probability = 0.5f;
};

/// A part of the picture with a random share of its area and a random ratio of width to height (both uniform, the ratio
/// in its logarithm), stretched to height x width: bilinear between the part's pixels, without antialiasing. Where ten
/// draws give none that fits: the largest part in the middle whose ratio is allowed. torchvision: RandomResizedCrop.
struct RandomResizedCrop {
  int height = 0;
  int width = 0;
  float scale_min = 0.08f;
  float scale_max = 1;
  float ratio_min = 3.0f / 4;
  float ratio_max = 4.0f / 3;
};

/// Brightness, contrast, saturation and hue, in random order, of pictures in [0, 1], which they stay in: factors in
/// [1 - v, 1 + v] (not below 0), and a turn of the hue in [-hue, hue] of a whole one, hue up to 1/2. Pictures of one
/// channel have neither saturation nor hue. ShapeError for other than 1 or 3 channels.  torchvision: ColorJitter.
struct ColorJitter {
  float brightness = 0;
  float contrast = 0;
  float saturation = 0;
  float hue = 0;
};

/// (x - mean[c]) / deviation[c], each step rounded; a single value serves every channel. torchvision: Normalize.
struct Normalize {
  std::vector<float> mean;
  std::vector<float> deviation;
};

/// Turned by up to `degrees` either way, scaled by a factor in [scale_min, scale_max], sheared along x by up to `shear`
/// degrees either way, and moved by up to `translate` times the side either way, about the middle. Bilinear; `fill`
/// outside the picture. torchvision: RandomAffine, which moves by whole pixels.
struct RandomAffine {
  float degrees = 0;
  float translate = 0;
  float scale_min = 1;
  float scale_max = 1;
  float shear = 0;
  float fill = 0;
};

/// A square of `size` pixels a side, its middle anywhere in the picture, becomes `fill`. DeVries and Taylor, 2017.
struct Cutout {
  int size = 8;
  float fill = 0;
};

/// `ops` of fourteen changes in a row, drawn alike: identity, shears, moves, a turn, brightness, colour, contrast,
/// sharpness, fewer bits, solarisation, automatic contrast, equalisation; all of one strength, `magnitude` of `bins`
/// steps. Pictures in [0, 1] are rounded to bytes before (those of a data set of bytes are exact), and each change
/// gives what torchvision gives of u8 tensors, `fill` outside the picture. PIL rounds where torchvision cuts off, so
/// its blends may differ by 1/255; a pixel that a turn puts exactly between two may be either. ShapeError for other than 1 or 3 channels.  Cubuk et al. (2020); torchvision:
/// RandAugment.
struct RandAugment {
  int ops = 2;
  int magnitude = 9;
  int bins = 31;
  float fill = 0;
};

using Transform = std::variant<RandomCrop, RandomHorizontalFlip, Normalize, RandomAffine, Cutout, RandomVerticalFlip,
                               RandomResizedCrop, ColorJitter, RandAugment>;

/// `dataset` with its pictures, u8 or f32 [n, channels, height, width], as f32 (u8 divided by 255) and changed by the
/// steps in their order, which may be none. ValueError for steps out of range; fetching a batch throws ShapeError or
/// DTypeError for inputs that are no pictures, or do not fit a step.
LOCKSTEP_API DatasetPtr transform(DatasetPtr dataset, std::vector<Transform> steps, CallSite site = {});

}  // namespace data
}  // namespace v0
}  // namespace lockstep
