// PNG decoding; whatever decodes must survive being encoded and decoded again.
#include "image_target.h"
#include "io/orientation.h"

LOCKSTEP_FUZZ_TARGET(png) {
  using namespace lockstep;
  return fuzz::expect_error_or_success([&] {
    const os::FileBytes file = fuzz::file_of(data, size);
    if (const int turn = io::stored_orientation(file.bytes); turn < 1 || turn > 8) __builtin_trap();
    const io::Image image = io::decode_png("input", file.bytes, fuzz::kMaxPixels);
    fuzz::check_pixels(image);
    if (image.pixels.size() <= 4096 && !(io::decode_png("again", io::encode_png(image)) == image)) __builtin_trap();
  });
}
