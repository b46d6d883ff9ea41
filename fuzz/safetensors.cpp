// The safetensors header, and every byte that it points to.
#include "fuzz_target.h"
#include "io/safetensors_header.h"

LOCKSTEP_FUZZ_TARGET(safetensors) {
  using namespace lockstep;
  return fuzz::expect_error_or_success([&] {
    const os::FileBytes file = fuzz::file_of(data, size);
    const io::SafetensorsHeader header = io::parse_safetensors_header(file);
    std::uint64_t bytes = 0;
    for (const io::TensorEntry& entry : header.entries) {
      fuzz::touch(io::raw_tensor(file, entry));
      bytes += entry.bytes;
    }
    if (bytes > size) __builtin_trap();  // spans that overlap
  });
}
