// How a camera was held: the EXIF tag that says which way up a picture belongs, and the turning.
#pragma once

#include <cstddef>
#include <span>

#include <lockstep/io/image.h>

namespace lockstep {
inline namespace v0 {
namespace io {

/// EXIF's orientation, 1 to 8, in the bytes of a JPEG or PNG file. 1, which is as stored, where there is none, and
/// where what stands there makes no sense: programs that show pictures do likewise.
int stored_orientation(std::span<const std::byte> file);

/// The picture as it belongs, of one that was stored with this orientation.  Pillow: ImageOps.exif_transpose.
Image turned(const Image& stored, int orientation);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
