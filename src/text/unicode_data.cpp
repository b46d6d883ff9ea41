#include "text/unicode_data.h"

#include <algorithm>

#include "core/packed_texts.h"
#include "text/unicode_tables.h"

namespace lockstep {
inline namespace v0 {
namespace text {

UnicodeReader::UnicodeReader(UnicodeTable table) {
  static const PackedTexts tables(kUnicodeData, kUnicodeBytes);
  const std::string_view bytes = tables.texts()[static_cast<std::size_t>(table)];
  bytes_ = {reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()};
}

std::uint32_t UnicodeReader::number() {
  std::uint32_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const std::uint32_t byte = bytes_[at_++];
    value |= (byte & 127) << shift;
    if (byte < 128) return value;
  }
}

std::int32_t UnicodeReader::signed_number() {
  const std::uint32_t value = number();
  const auto size = static_cast<std::int32_t>(value >> 1);
  return (value & 1) != 0 ? -size : size;
}

UnicodeRuns::UnicodeRuns(UnicodeTable table) {
  UnicodeReader reader(table);
  runs_.resize(reader.number());
  std::uint32_t start = 0;
  for (std::uint32_t& run : runs_) run = (start += reader.number()) << 8;
  for (std::uint32_t& run : runs_) run |= reader.number();
}

std::uint32_t UnicodeRuns::operator()(char32_t c) const {
  if (c > 0x10ffff) return 0;
  const std::uint32_t key = static_cast<std::uint32_t>(c) << 8 | 255;
  return *(std::upper_bound(runs_.begin(), runs_.end(), key) - 1) & 255;
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
