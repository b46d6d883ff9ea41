// Pictures: decoding, encoding, and the resizing that published models were trained with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/export.h>
#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace io {

/// A picture of 8-bit RGB: rows from the top, pixels from the left, red first.
struct Image {
  int width = 0;
  int height = 0;
  int channels = 3;
  std::vector<std::uint8_t> pixels;  ///< height * width * channels

  friend bool operator==(const Image&, const Image&) = default;
};

/// Largest number of pixels that is decoded; checked before any memory is taken for them.
inline constexpr std::int64_t kMaxImagePixels = 64 * 1024 * 1024;

struct LoadImageOptions {
  /// Turned as the EXIF tag of the file says, where it has one: as people see the picture, and as OpenCV reads it. Else
  /// as its pixels are stored, as Pillow and torchvision read it.  Pillow: ImageOps.exif_transpose.
  bool upright = false;
};

/// Decodes a PNG or JPEG file, recognised by its content, to RGB. Gray is repeated; of 16-bit samples the upper byte is
/// taken; alpha is dropped, not blended; CMYK is taken as Adobe writes it (inverted).
/// JPEG: the accurate integer transform and smooth chroma upsampling, as in Pillow and OpenCV.
/// Throws IoError if the file cannot be read; FormatError if it is neither, damaged, cut short, or too large.
LOCKSTEP_API Image load_image(const std::string& path, LoadImageOptions options = {});

/// Writes an RGB PNG, atomically. Throws ValueError if sizes and pixels do not fit, IoError if writing fails.
LOCKSTEP_API void save_png(const std::string& path, const Image& image);

/// Bilinear and bicubic (a = -0.5) filters, widened when the image shrinks (antialiased).
enum class ResizeFilter : std::uint8_t { bilinear, bicubic };

/// Resizes with the algorithm and fixed-point arithmetic of Pillow 13, to the same bits. Throws ValueError unless sizes
/// are positive and their product is at most kMaxImagePixels.
LOCKSTEP_API Image resize(const Image& image, int width, int height, ResizeFilter filter = ResizeFilter::bilinear);

/// Resizes so that the shorter side becomes `size`, keeping the aspect; the longer side is truncated to whole pixels.
/// torchvision: Resize(size).
LOCKSTEP_API Image resize_shorter_side(const Image& image, int size, ResizeFilter filter = ResizeFilter::bilinear);

/// The middle of the image; an odd margin is rounded half to even. torchvision: CenterCrop, without its padding:
/// throws ValueError if the image is smaller than the crop.
LOCKSTEP_API Image center_crop(const Image& image, int width, int height);

/// The pixels as u8 [3, height, width].
LOCKSTEP_API Tensor image_to_tensor(const Image& image, Device device = {});

}  // namespace io
}  // namespace v0
}  // namespace lockstep
