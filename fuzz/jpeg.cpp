// JPEG decoding.
#include "image_target.h"
#include "io/orientation.h"

LOCKSTEP_FUZZ_TARGET(jpeg) {
  using namespace lockstep;
  return fuzz::expect_error_or_success([&] {
    const os::FileBytes file = fuzz::file_of(data, size);
    if (const int turn = io::stored_orientation(file.bytes); turn < 1 || turn > 8) __builtin_trap();
    fuzz::check_pixels(io::decode_jpeg("input", file.bytes, fuzz::kMaxPixels));
  });
}
