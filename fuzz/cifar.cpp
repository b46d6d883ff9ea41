// CIFAR-10 records.
#include "image_target.h"
#include "io/cifar_parser.h"

LOCKSTEP_FUZZ_TARGET(cifar) {
  using namespace lockstep;
  return fuzz::expect_error_or_success([&] {
    const os::FileBytes file = fuzz::file_of(data, size);
    const io::CifarFile cifar = io::parse_cifar("input", file.bytes);
    for (std::size_t i = 0; i < cifar.size(); ++i) {
      if (cifar.labels[i] >= io::CifarFile::kClasses) __builtin_trap();
      fuzz::check_pixels(cifar.image(i));
    }
  });
}
