// What the image targets share: small pictures only, so that time goes into parsing and not into pixels.
#pragma once

#include "fuzz_target.h"
#include "io/image_codec.h"

namespace lockstep::fuzz {

inline constexpr std::int64_t kMaxPixels = 1 << 18;

inline void check_pixels(const io::Image& image) {
  const auto pixels = static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height);
  if (image.width <= 0 || image.height <= 0 || image.pixels.size() != pixels * 3) __builtin_trap();
  hash_bytes(std::as_bytes(std::span(image.pixels)));
}

}  // namespace lockstep::fuzz
