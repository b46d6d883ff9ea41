#include "io/zip_writer.h"

#include <algorithm>
#include <cstring>

#include <zlib.h>

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

constexpr std::uint64_t kWide = 0xffffffff;
constexpr std::uint64_t kZipAlignment = 64;
constexpr std::uint16_t kPaddingField = 0xd935;  // the field that Android's zipalign registered for padding

template <typename T> std::string number(std::uint64_t value) {
  const auto narrow = static_cast<T>(value);
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &narrow, sizeof(T));
  return bytes;
}
std::string u16(std::uint64_t value) {
  return number<std::uint16_t>(value);
}
std::string u32(std::uint64_t value) {
  return number<std::uint32_t>(value);
}
std::string u64(std::uint64_t value) {
  return number<std::uint64_t>(value);
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

void ZipWriter::write(std::string_view bytes) {
  file_.write(bytes);
  offset_ += bytes.size();
}

void ZipWriter::add(std::string_view name, std::string_view front, std::span<const std::byte> rest) {
  const std::uint64_t size = front.size() + rest.size();
  const std::uint64_t begin = offset_;
  const bool wide = size >= kWide;
  auto crc = ::crc32_z(0, reinterpret_cast<const unsigned char*>(front.data()), front.size());
  // zlib takes a null pointer as a question for the first value.
  if (!rest.empty()) crc = ::crc32_z(crc, reinterpret_cast<const unsigned char*>(rest.data()), rest.size());

  const std::string version = u16(wide || begin >= kWide ? 45 : 20);
  const std::string flags = u16(is_ascii(name) ? 0 : 1 << 11);
  const std::string time = u16(0) + u16(0x21);  // 1980-01-01, the first that there is
  const std::string middle =
      version + flags + u16(0) + time + u32(crc) + u32(wide ? kWide : size) + u32(wide ? kWide : size);

  std::string extra = wide ? u16(1) + u16(16) + u64(size) + u64(size) : "";
  const std::uint64_t unpadded = begin + 30 + name.size() + extra.size() + 4;
  const std::uint64_t padding = (kZipAlignment - unpadded % kZipAlignment) % kZipAlignment;
  extra += u16(kPaddingField) + u16(padding) + std::string(padding, '\0');
  write("PK\x03\x04" + middle + u16(name.size()) + u16(extra.size()) + std::string(name) + extra);
  write(front);
  file_.write(rest);
  offset_ += rest.size();

  std::string wide_fields;
  if (wide) wide_fields += u64(size) + u64(size);
  if (begin >= kWide) wide_fields += u64(begin);
  const std::string central_extra = wide_fields.empty() ? "" : u16(1) + u16(wide_fields.size()) + wide_fields;
  directory_ += "PK\x01\x02" + u16(45) + middle + u16(name.size()) + u16(central_extra.size()) + u16(0) + u16(0) +
                u16(0) + u32(0) + u32(std::min(begin, kWide)) + std::string(name) + central_extra;
  ++entries_;
}

void ZipWriter::finish() {
  const std::uint64_t begin = offset_;
  write(directory_);
  const std::uint64_t end = offset_;
  const bool wide = entries_ >= 0xffff || begin >= kWide || directory_.size() >= kWide;
  if (wide) {
    write("PK\x06\x06" + u64(44) + u16(45) + u16(45) + u32(0) + u32(0) + u64(entries_) + u64(entries_) +
          u64(directory_.size()) + u64(begin));
    write("PK\x06\x07" + u32(0) + u64(end) + u32(1));
  }
  const std::uint64_t count = std::min<std::uint64_t>(entries_, 0xffff);
  write("PK\x05\x06" + u32(0) + u16(count) + u16(count) + u32(std::min<std::uint64_t>(directory_.size(), kWide)) +
        u32(std::min(begin, kWide)) + u16(0));
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
