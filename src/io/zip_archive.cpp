#include "io/zip_archive.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>

#include <fmt/format.h>
#include <zlib.h>

#include <lockstep/error.h>

#include "core/assert.h"
#include "core/checked.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

constexpr std::uint32_t kLocalSignature = 0x04034b50;
constexpr std::uint32_t kDescriptorSignature = 0x08074b50;
constexpr std::uint32_t kCentralSignature = 0x02014b50;
constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kLocator64Signature = 0x07064b50;
constexpr std::uint64_t kEndBytes = 22;
constexpr std::uint64_t kEnd64Bytes = 56;
constexpr std::uint64_t kLocator64Bytes = 20;
constexpr std::uint64_t kCentralBytes = 46;

constexpr std::uint16_t kHasDescriptor = 1 << 3;
constexpr std::uint16_t kIsUtf8 = 1 << 11;
constexpr std::uint16_t kDeflated = 8;
constexpr std::uint64_t kMostExpansion = 1032;  // of deflate: 258 bytes for two bits
constexpr std::uint16_t kZip64Extra = 0x0001;
constexpr std::uint32_t kIn64 = 0xffffffff;  // the value stands in the 64-bit extra field

struct Directory {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
};

ByteReader reader_at(const os::FileBytes& file, std::uint64_t offset, std::uint64_t bytes) {
  return ByteReader(file.path, file.bytes.subspan(offset, bytes), offset);
}

// The end record must be the last 22 bytes: an archive comment could hide a second one.
Directory read_end(const os::FileBytes& file) {
  const std::uint64_t size = file.bytes.size();
  ByteReader whole(file.path, file.bytes);
  if (size < kEndBytes) whole.fail(fmt::format("{} bytes are too few for a zip file", size));
  ByteReader end = reader_at(file, size - kEndBytes, kEndBytes);
  if (end.u32("signature") != kEndSignature) {
    whole.fail_at(size - kEndBytes, "the zip file does not end with an end record (cut short, or bytes follow it)");
  }
  const std::uint32_t disks = end.u16("disk") | end.u16("directory disk");
  const std::uint16_t here = end.u16("entries");
  const std::uint16_t total = end.u16("entries");
  Directory directory{.bytes = end.u32("directory size"), .entries = total};
  directory.offset = end.u32("directory offset");
  if (end.u16("comment length") != 0) end.fail("the zip file has a comment");
  if (disks != 0 || here != total) end.fail("the zip file is split over several disks");

  std::uint64_t directory_end = size - kEndBytes;
  const bool has_64 = size >= kEndBytes + kLocator64Bytes + kEnd64Bytes &&
                      reader_at(file, directory_end - kLocator64Bytes, 4).u32("signature") == kLocator64Signature;
  if (has_64) {
    directory_end -= kLocator64Bytes + kEnd64Bytes;
    ByteReader locator = reader_at(file, directory_end + kEnd64Bytes, kLocator64Bytes);
    locator.take(4, "signature");
    const std::uint32_t locator_disk = locator.u32("disk");
    const std::uint64_t end_offset = locator.u64("offset");
    if (locator_disk != 0 || locator.u32("disks") > 1 || end_offset != directory_end) {
      locator.fail(fmt::format("the zip64 locator points to byte {} instead of {}", end_offset, directory_end));
    }
    ByteReader end64 = reader_at(file, directory_end, kEnd64Bytes);
    if (end64.u32("signature") != kEnd64Signature || end64.u64("record size") != kEnd64Bytes - 12) {
      end64.fail("the zip64 end record is malformed");
    }
    end64.take(4, "versions");
    const std::uint64_t disks64 = std::uint64_t{end64.u32("disk")} | end64.u32("directory disk");
    const std::uint64_t here64 = end64.u64("entries");
    Directory wide{.entries = end64.u64("entries")};
    wide.bytes = end64.u64("directory size");
    wide.offset = end64.u64("directory offset");
    const auto agrees = [](std::uint64_t narrow, std::uint64_t limit, std::uint64_t value) {
      return narrow == value || narrow == limit;
    };
    if (disks64 != 0 || here64 != wide.entries || !agrees(directory.entries, 0xffff, wide.entries) ||
        !agrees(directory.bytes, kIn64, wide.bytes) || !agrees(directory.offset, kIn64, wide.offset)) {
      end64.fail("the two end records of the zip file disagree");
    }
    directory = wide;
  }
  if (!(CheckedSize(directory.offset) + directory.bytes).equals(directory_end)) {
    whole.fail_at(directory_end, fmt::format("the central directory [{}, +{}) does not end where the end record begins",
                                             directory.offset, directory.bytes));
  }
  if (directory.entries > kMaxZipEntries || directory.entries * kCentralBytes > directory.bytes) {
    whole.fail_at(directory.offset, fmt::format("{} zip entries exceed the directory or the limit of {}",
                                                directory.entries, kMaxZipEntries));
  }
  return directory;
}

// The 64-bit field of an entry's extra data, if any. The list of fields must fill the data exactly.
std::optional<ByteReader> find_extra64(ByteReader extra) {
  std::optional<ByteReader> found;
  while (!extra.at_end()) {
    const std::uint16_t id = extra.u16("extra field");
    const std::uint16_t bytes = extra.u16("extra field");
    const std::uint64_t offset = extra.offset();
    const std::span<const std::byte> data = extra.take(bytes, "extra field");
    if (id != kZip64Extra) continue;
    if (found) extra.fail("a zip entry has two 64-bit extra fields");
    found.emplace(extra.file(), data, offset);
  }
  return found;
}

void widen(ByteReader& reader, std::optional<ByteReader>& extra, std::uint64_t& value, std::string_view what) {
  if (value != kIn64) return;
  if (!extra) reader.fail(fmt::format("a zip entry's {} is marked 64-bit, but there is no such field", what));
  value = extra->u64(what);
}

void check_name(const ByteReader& reader, std::string_view name) {
  if (const char* why = why_no_zip_name(name)) reader.fail(fmt::format("zip entry name {} {}", in_quotes(name), why));
}

ZipEntry read_central(ByteReader& reader, ZipRules rules) {
  if (reader.u32("directory entry") != kCentralSignature) reader.fail("a directory entry has a wrong signature");
  ZipEntry entry;
  reader.u16("version");
  reader.u16("version");
  entry.flags = reader.u16("flags");
  const std::uint16_t method = reader.u16("method");
  reader.take(4, "time");
  entry.crc = reader.u32("checksum");
  std::uint64_t stored_bytes = reader.u32("size");
  entry.bytes = reader.u32("size");
  const std::uint16_t name_bytes = reader.u16("name length");
  const std::uint16_t extra_bytes = reader.u16("extra length");
  const std::uint16_t comment_bytes = reader.u16("comment length");
  const std::uint16_t disk = reader.u16("disk");
  reader.take(6, "attributes");
  entry.header_offset = reader.u32("offset");
  entry.name = text_of(reader.take(name_bytes, "name"));
  check_name(reader, entry.name);
  const auto refuse = [&](std::string_view why) {
    reader.fail(fmt::format("zip entry {} {}", in_quotes(entry.name), why));
  };
  if ((entry.flags & ~(kHasDescriptor | kIsUtf8)) != 0) {
    refuse(fmt::format("is encrypted or has unknown flags {:#06x}", entry.flags));
  }
  entry.deflated = method == kDeflated && rules.deflated;
  if (method != 0 && !entry.deflated) {
    refuse(fmt::format("is compressed (method {}); only stored {}entries are read", method,
                       rules.deflated ? "and deflated " : ""));
  }
  if (comment_bytes != 0 || disk != 0) refuse("has a comment or lies on another disk");

  const std::uint64_t extra_offset = reader.offset();
  std::optional<ByteReader> extra =
      find_extra64(ByteReader(reader.file(), reader.take(extra_bytes, "extra fields"), extra_offset));
  widen(reader, extra, entry.bytes, "size");
  widen(reader, extra, stored_bytes, "size");
  widen(reader, extra, entry.header_offset, "offset");
  entry.stored_bytes = stored_bytes;
  if (entry.deflated) {
    if (!(CheckedSize(stored_bytes) * kMostExpansion).overflowed() && entry.bytes > stored_bytes * kMostExpansion) {
      refuse(fmt::format("says that {} bytes unpack to {}, which deflate cannot", stored_bytes, entry.bytes));
    }
  } else if (stored_bytes != entry.bytes) {
    refuse(fmt::format("is stored, but its sizes {} and {} differ", stored_bytes, entry.bytes));
  }
  return entry;
}

// Compares an entry's local header, and the descriptor behind its data, with the directory. `limit` is where the next
// entry, or the directory, begins.
void check_local(const os::FileBytes& file, ZipEntry& entry, std::uint64_t limit) {
  ByteReader reader = reader_at(file, entry.header_offset, limit - entry.header_offset);
  const auto refuse = [&](std::string_view why) {
    reader.fail(fmt::format("zip entry {}: {}", in_quotes(entry.name), why));
  };
  if (reader.u32("local header") != kLocalSignature) refuse("the local header has a wrong signature");
  reader.u16("version");
  const std::uint16_t flags = reader.u16("flags");
  const std::uint16_t method = reader.u16("method");
  reader.take(4, "time");
  const std::uint32_t crc = reader.u32("checksum");
  std::uint64_t stored_bytes = reader.u32("size");
  std::uint64_t bytes = reader.u32("size");
  const std::uint16_t name_bytes = reader.u16("name length");
  const std::uint16_t extra_bytes = reader.u16("extra length");
  const std::string_view name = text_of(reader.take(name_bytes, "name"));
  if (name != entry.name) refuse(fmt::format("the local header names it {}", in_quotes(name)));
  if (flags != entry.flags || method != (entry.deflated ? kDeflated : 0)) refuse("flags or method differ between local header and directory");

  const std::uint64_t extra_offset = reader.offset();
  std::optional<ByteReader> extra =
      find_extra64(ByteReader(file.path, reader.take(extra_bytes, "extra fields"), extra_offset));
  const bool has_descriptor = (flags & kHasDescriptor) != 0;
  const bool deferred = has_descriptor && crc == 0 && bytes == 0 && stored_bytes == 0;
  if (!deferred && !(has_descriptor && extra)) {
    widen(reader, extra, bytes, "size");
    widen(reader, extra, stored_bytes, "size");
    if (crc != entry.crc || bytes != entry.bytes || stored_bytes != entry.stored_bytes) {
      refuse("checksum or size differ between local header and directory");
    }
  }
  entry.data_offset = reader.offset();
  reader.take(entry.stored_bytes, "the data");
  if (has_descriptor) {
    // With or without signature, with 32-bit or 64-bit sizes: the space that is left tells.
    const std::uint64_t left = reader.remaining();
    if (left != 12 && left != 16 && left != 20 && left != 24) {
      refuse(fmt::format("{} bytes stand where its data descriptor should", left));
    }
    if (left % 8 == 0 && reader.u32("descriptor") != kDescriptorSignature)
      refuse("its descriptor has a wrong signature");
    const bool same_crc = reader.u32("checksum") == entry.crc;
    const bool wide = left >= 20;
    const std::uint64_t first = wide ? reader.u64("size") : reader.u32("size");
    const std::uint64_t second = wide ? reader.u64("size") : reader.u32("size");
    if (!same_crc || first != entry.stored_bytes || second != entry.bytes) {
      refuse("checksum or size differ between data descriptor and directory");
    }
  }
  if (!reader.at_end()) refuse(fmt::format("{} bytes after it belong to no entry", reader.remaining()));
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

void check_duplicates(const os::FileBytes& file, const std::vector<ZipEntry>& entries, bool case_matters) {
  std::vector<std::string> names;
  for (const ZipEntry& entry : entries) names.push_back(case_matters ? entry.name : lower_case(entry.name));
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    throw FormatError(fmt::format("{}: zip entry {} appears twice{}", file.path, in_quotes(*twice),
                                  case_matters ? "" : " (case ignored)"));
  }
}

}  // namespace

bool is_zip(std::span<const std::byte> bytes) {
  std::uint32_t signature = 0;
  if (bytes.size() < sizeof signature) return false;
  std::memcpy(&signature, bytes.data(), sizeof signature);
  return signature == kLocalSignature || signature == kEndSignature;
}

const char* why_no_zip_name(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name.find('\0') != std::string_view::npos) return "contains a zero byte";
  if (name.find('\\') != std::string_view::npos || name.find(':') != std::string_view::npos) {
    return "contains a backslash or colon";
  }
  if (name.front() == '/') return "is an absolute path";
  for (std::size_t start = 0; start <= name.size();) {
    const std::size_t slash = std::min(name.find('/', start), name.size());
    if (name.substr(start, slash - start) == "..") return "leaves the archive";
    start = slash + 1;
  }
  return nullptr;
}

ZipArchive::ZipArchive(os::FileBytes file, ZipRules rules) : file_(std::move(file)) {
  const Directory directory = read_end(file_);
  ByteReader reader = reader_at(file_, directory.offset, directory.bytes);
  for (std::uint64_t i = 0; i < directory.entries; ++i) entries_.push_back(read_central(reader, rules));
  if (!reader.at_end()) reader.fail("bytes of the central directory belong to no entry");
  check_duplicates(file_, entries_, rules.case_matters);

  std::sort(entries_.begin(), entries_.end(),
            [](const ZipEntry& a, const ZipEntry& b) { return a.header_offset < b.header_offset; });
  // Each entry must begin where the one before ends, the first at byte 0 and the directory after the last. Every
  // entry's own check ends with that comparison, so only the first start and the order are left to look at.
  if (!entries_.empty() && entries_.front().header_offset != 0) {
    reader.fail_at(0, "the zip file does not begin with an entry");
  }
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const std::uint64_t limit = i + 1 < entries_.size() ? entries_[i + 1].header_offset : directory.offset;
    if (entries_[i].header_offset >= limit || limit > directory.offset) {
      reader.fail_at(entries_[i].header_offset,
                     fmt::format("zip entry {} overlaps another entry or the directory", in_quotes(entries_[i].name)));
    }
    check_local(file_, entries_[i], limit);
  }
  if (entries_.empty() && directory.offset != 0) reader.fail_at(0, "bytes of the zip file belong to no entry");

  by_name_.resize(entries_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::sort(by_name_.begin(), by_name_.end(), [&](auto a, auto b) { return entries_[a].name < entries_[b].name; });
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto found = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                      [&](std::uint32_t i, std::string_view n) { return entries_[i].name < n; });
  return found != by_name_.end() && entries_[*found].name == name ? &entries_[*found] : nullptr;
}

std::span<const std::byte> ZipArchive::data(const ZipEntry& entry, bool verify) const {
  const std::span<const std::byte> bytes = file_.bytes.subspan(entry.data_offset, entry.stored_bytes);
  LOCKSTEP_ASSERT(!entry.deflated);
  if (verify) {
    const auto crc = ::crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    if (crc != entry.crc) {
      throw FormatError(fmt::format("{}: zip entry {}: checksum is {:08x} instead of {:08x}; the file is damaged",
                                    file_.path, in_quotes(entry.name), crc, entry.crc));
    }
  }
  return bytes;
}

std::vector<std::byte> ZipArchive::inflate(const ZipEntry& entry, std::uint64_t bytes, bool verify) const {
  constexpr std::size_t kStep = std::size_t{1} << 20;
  const auto refuse = [&](std::string_view why) {
    throw FormatError(fmt::format("{}: zip entry {}: {}", file_.path, in_quotes(entry.name), why));
  };
  LOCKSTEP_ASSERT(entry.deflated && bytes <= entry.bytes);
  const std::span<const std::byte> packed = file_.bytes.subspan(entry.data_offset, entry.stored_bytes);
  z_stream stream{};
  if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw OutOfMemoryError("zlib: no memory to unpack with");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, ::inflateEnd);

  // Of one block, whose pages are the system's until something is unpacked into them: a vector that grew would hold its
  // content twice at times.
  std::vector<std::byte> result;
  try {
    result.reserve(static_cast<std::size_t>(bytes));
  } catch (const std::bad_alloc&) {
    throw OutOfMemoryError(fmt::format("{}: zip entry {}: cannot allocate {} bytes to unpack it", file_.path,
                                       in_quotes(entry.name), bytes));
  }
  std::size_t read = 0;
  int status = Z_OK;
  std::byte beyond{};  // where a stream of more than entry.bytes shows itself
  while (status == Z_OK && (result.size() < bytes || bytes == entry.bytes)) {
    const std::size_t before = result.size();
    const bool full = before == bytes;
    if (!full) result.resize(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, before + kStep)));
    const std::size_t room = full ? 1 : result.size() - before;
    const std::size_t take = std::min(packed.size() - read, kStep);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + read));
    stream.avail_in = static_cast<uInt>(take);
    stream.next_out = reinterpret_cast<Bytef*>(full ? &beyond : result.data() + before);
    stream.avail_out = static_cast<uInt>(room);
    status = ::inflate(&stream, Z_NO_FLUSH);
    const std::size_t made = room - stream.avail_out;
    const std::size_t used = take - stream.avail_in;
    read += used;
    if (full && made > 0) refuse(fmt::format("unpacks to more than its {} bytes", entry.bytes));
    if (!full) result.resize(before + made);
    if (status == Z_BUF_ERROR || (status == Z_OK && made == 0 && used == 0)) refuse("its compressed data are cut short");
  }
  if (status == Z_MEM_ERROR) throw OutOfMemoryError("zlib: no memory to unpack with");
  if (status != Z_OK && status != Z_STREAM_END) refuse("its compressed data are damaged");
  if (result.size() < bytes) refuse(fmt::format("unpacks to {} instead of {} bytes", result.size(), entry.bytes));
  if (bytes < entry.bytes) return result;
  if (read != packed.size()) refuse(fmt::format("{} bytes follow its compressed data", packed.size() - read));
  const auto crc = ::crc32_z(0, reinterpret_cast<const unsigned char*>(result.data()), result.size());
  if (verify && crc != entry.crc) {
    refuse(fmt::format("checksum is {:08x} instead of {:08x}; the file is damaged", crc, entry.crc));
  }
  return result;
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
