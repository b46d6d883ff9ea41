// Zip archives, read strictly. A zip file says everything twice (local headers and central directory); readers that
// believe different copies see different files. Here both copies must agree, entries must fill the file from its
// first byte to the central directory without gaps or overlaps, and nothing may follow the directory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace io {

inline constexpr std::size_t kMaxZipEntries = 131'072;

struct ZipEntry {
  std::string name;
  std::uint64_t header_offset = 0;  ///< Of the local header.
  std::uint64_t data_offset = 0;
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
  std::uint16_t flags = 0;
};

class ZipArchive {
 public:
  /// Checks the structure of the whole file; does not touch the entries' data. Throws FormatError, also for
  /// compressed or encrypted entries, for names that leave the archive, and for names that differ only in case.
  explicit ZipArchive(os::FileBytes file);

  const os::FileBytes& file() const { return file_; }
  /// In the order of their data.
  const std::vector<ZipEntry>& entries() const { return entries_; }
  /// Null where there is none.
  const ZipEntry* find(std::string_view name) const;
  /// The entry's data in the file. With `verify`, throws FormatError unless their CRC-32 is right.
  std::span<const std::byte> data(const ZipEntry& entry, bool verify) const;

 private:
  os::FileBytes file_;
  std::vector<ZipEntry> entries_;
  std::vector<std::uint32_t> by_name_;
};

}  // namespace io
}  // namespace v0
}  // namespace lockstep
