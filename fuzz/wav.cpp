// WAV files. Whoever reads one must get as many samples as its shape says.
#include "fuzz_target.h"
#include "io/wav_parser.h"

LOCKSTEP_FUZZ_TARGET(wav) {
  using namespace lockstep;
  return fuzz::expect_error_or_success([&] {
    const os::FileBytes file = fuzz::file_of(data, size);
    const Tensor samples = io::parse_wav("input", file.bytes).samples;
    std::vector<std::byte> bytes(static_cast<std::size_t>(samples.numel()) * size_of(samples.dtype()));
    samples.read_bytes(bytes.data());
    hash_bytes(bytes);
  });
}
