// The check that every function taking an Image begins with.
#pragma once

#include <lockstep/io/image.h>

namespace lockstep {
inline namespace v0 {
namespace io {

/// Throws ValueError, naming `op`, unless the image has positive sizes, three channels and as many pixels as they say.
void check_image(const char* op, const Image& image);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
