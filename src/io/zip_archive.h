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

/// What else than the strictest is taken.
struct ZipRules {
  bool deflated = false;      ///< Compressed entries; they are unpacked by inflate().
  bool case_matters = false;  ///< Names may differ in nothing but case.
};

struct ZipEntry {
  std::string name;
  std::uint64_t header_offset = 0;  ///< Of the local header.
  std::uint64_t data_offset = 0;
  std::uint64_t bytes = 0;         ///< Unpacked.
  std::uint64_t stored_bytes = 0;  ///< In the file; the same unless deflated.
  bool deflated = false;
  std::uint32_t crc = 0;
  std::uint16_t flags = 0;
};

/// Whether the bytes begin as a zip file does, an empty one included.
bool is_zip(std::span<const std::byte> bytes);

/// Why an archive cannot hold an entry of that name; null if it can.
const char* why_no_zip_name(std::string_view name);

class ZipArchive {
 public:
  /// Checks the structure of the whole file; does not touch the entries' data. Throws FormatError, also for
  /// encrypted entries and for names that leave the archive, and, unless `rules` admit them, for compressed entries and
  /// names that differ only in case.
  explicit ZipArchive(os::FileBytes file, ZipRules rules = {});

  const os::FileBytes& file() const { return file_; }
  /// In the order of their data.
  const std::vector<ZipEntry>& entries() const { return entries_; }
  /// Null where there is none.
  const ZipEntry* find(std::string_view name) const;
  /// The entry's data in the file. With `verify`, throws FormatError unless their CRC-32 is right.
  std::span<const std::byte> data(const ZipEntry& entry, bool verify) const;
  /// The first `bytes` bytes of a deflated entry. Memory grows with what is unpacked, not with what the entry says.
  /// Throws FormatError if the data are no deflate stream of entry.bytes bytes or, all unpacked and with `verify`, their
  /// CRC-32 is wrong.
  std::vector<std::byte> inflate(const ZipEntry& entry, std::uint64_t bytes, bool verify) const;

 private:
  os::FileBytes file_;
  std::vector<ZipEntry> entries_;
  std::vector<std::uint32_t> by_name_;
};

}  // namespace io
}  // namespace v0
}  // namespace lockstep
