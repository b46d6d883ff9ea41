// JPEG decoding.
#include "image_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  return fuzz::expect_error_or_success([&] {
    const os::FileBytes file = fuzz::file_of(data, size);
    fuzz::check_pixels(io::decode_jpeg("input", file.bytes, fuzz::kMaxPixels));
  });
}
