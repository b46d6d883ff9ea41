// Writes zip files of stored entries, in a form that zip_archive.h reads: no descriptors, no gaps, equal contents give
// equal bytes. Entries of 4 GiB and more, or behind the first 4 GiB, take the 64-bit fields.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace io {

class ZipWriter {
 public:
  explicit ZipWriter(os::AtomicFile& file) : file_(file) {}
  /// One entry made of `front` and `rest`. Its data start at a multiple of 64 bytes.
  void add(std::string_view name, std::string_view front, std::span<const std::byte> rest);
  /// The directory. Nothing may be added afterwards.
  void finish();

 private:
  void write(std::string_view bytes);

  os::AtomicFile& file_;
  std::uint64_t offset_ = 0;
  std::uint64_t entries_ = 0;
  std::string directory_;
};

}  // namespace io
}  // namespace v0
}  // namespace lockstep
