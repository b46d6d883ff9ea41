// From a picture to the tensor that a network was trained on. What to do belongs to the architecture, as data.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/io/image.h>
#include <lockstep/io/metadata.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// Size first, then values: channel c becomes (pixel / scale - mean[c]) / deviation[c], each step rounded to f32.
struct Preprocessing {
  enum class Fit : std::uint8_t {
    stretch,         ///< Resize to width x height, whatever the aspect.
    crop,            ///< Resize the shorter side to `shorter_side`, then take the middle. torchvision's evaluation.
    crop_if_needed,  ///< As `crop`, but a picture of width x height is taken as it is.
  };
  Fit fit = Fit::stretch;
  int shorter_side = 0;
  int width = 0;
  int height = 0;
  /// 1: the picture's gray, (19595 red + 38470 green + 7471 blue) / 65536, rounded, as Pillow's "L".
  int channels = 3;
  io::ResizeFilter filter = io::ResizeFilter::bilinear;
  bool bgr = false;  ///< Blue first. `mean` and `deviation` are in the order of the result.
  float scale = 255;
  std::array<float, 3> mean{};
  std::array<float, 3> deviation{1, 1, 1};

  friend bool operator==(const Preprocessing&, const Preprocessing&) = default;
};

/// Resizing is antialiased. Throws ValueError if the image is not RGB or has no pixels.
LOCKSTEP_API io::Image fit(const Preprocessing& preprocessing, const io::Image& image);
/// f32 [images, channels, height, width]. Pictures are fitted one by one and may have any sizes.
LOCKSTEP_API Tensor preprocess(const Preprocessing& preprocessing, const std::vector<io::Image>& images,
                               Device device = {}, CallSite site = {});

/// As texts for the metadata of a file of weights, under "picture.width" and the like: what was trained on such
/// pictures is then asked about such pictures. `lockstep train` writes them.
LOCKSTEP_API std::map<std::string, std::string> to_metadata(const Preprocessing& preprocessing);
/// What to_metadata wrote, to the bit; nothing if there is none of it. Throws FormatError for anything else.
LOCKSTEP_API std::optional<Preprocessing> preprocessing_of(const io::Metadata& metadata);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
