// A zip file of NumPy arrays, stored or deflated. Checksums are not verified: no mutation would get past them.
#include "fuzz_target.h"
#include "io/npy.h"

LOCKSTEP_FUZZ_TARGET(npz) {
  using namespace lockstep;
  return fuzz::expect_error_or_success([&] {
    const io::ZipArchive archive = io::npz_archive(fuzz::file_of(data, size));
    std::uint64_t stored = 0;
    for (const io::ZipEntry& entry : archive.entries()) stored += entry.stored_bytes;
    if (stored > size) __builtin_trap();  // entries that overlap
    for (const io::ZipEntry& entry : archive.entries()) {
      const io::NpyHeader header = io::npz_header(archive, entry);
      if (!entry.deflated) {
        hash_bytes(archive.data(entry, false));
      } else if (archive.inflate(entry, entry.bytes, false).size() != header.data_offset + header.bytes) {
        __builtin_trap();
      }
    }
  });
}
