// A NumPy array, and every byte that it points to.
#include "io/npy.h"
#include "fuzz_target.h"

LOCKSTEP_FUZZ_TARGET(npy) {
  using namespace lockstep;
  return fuzz::expect_error_or_success([&] {
    const os::FileBytes file = fuzz::file_of(data, size);
    const io::NpyHeader header = io::parse_npy_header(file.path, file.bytes, size);
    if (header.data_offset + header.bytes != size) __builtin_trap();
    const io::RawTensor elements = io::npy_elements(header, file.bytes, file.owner);
    fuzz::touch(elements);
    io::to_tensor(elements, file.path, "");
  });
}
