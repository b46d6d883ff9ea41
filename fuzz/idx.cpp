// idx arrays, plain and in gzip. Whoever reads one must get as many bytes as its shape says.
#include "fuzz_target.h"
#include "io/idx_parser.h"

LOCKSTEP_FUZZ_TARGET(idx) {
  using namespace lockstep;
  return fuzz::expect_error_or_success([&] {
    const os::FileBytes file = fuzz::file_of(data, size);
    const Tensor array = io::parse_idx("input", file.bytes);
    std::vector<std::byte> bytes(static_cast<std::size_t>(array.numel()) * size_of(array.dtype()));
    array.read_bytes(bytes.data());
    hash_bytes(bytes);
  });
}
