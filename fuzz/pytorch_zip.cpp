// Whole files of torch.save in the zip form. Checksums are not verified: no mutation would get past them.
#include "io/zip_archive.h"
#include "pickle_walk.h"

LOCKSTEP_FUZZ_TARGET(pytorch_zip) {
  using namespace lockstep;
  fuzz::expect_error_or_success([&] {
    const io::ZipArchive archive(fuzz::file_of(data, size));
    std::uint64_t bytes = 0;
    for (const io::ZipEntry& entry : archive.entries()) {
      bytes += entry.bytes;
      hash_bytes(archive.data(entry, false));
      if (archive.find(entry.name) != &entry) __builtin_trap();
    }
    if (bytes > size) __builtin_trap();  // entries that overlap
  });
  return fuzz::expect_error_or_success([&] { fuzz::walk(io::parse_pytorch(fuzz::file_of(data, size), false)); });
}
