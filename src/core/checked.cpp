#include "core/checked.h"

#include <fmt/format.h>

#include <lockstep/error.h>

namespace lockstep {
inline namespace v0 {

std::string CheckedSize::to_string() const {
  return overflowed_ ? std::string("more than 2^64 - 1") : std::to_string(value_);
}

void ByteReader::fail_at(std::uint64_t offset, std::string_view message) const {
  throw FormatError(fmt::format("{}: {} (at byte {})", file_, message, offset));
}

void ByteReader::fail_short(CheckedSize count, std::string_view what) const {
  fail(fmt::format("{} needs {} bytes, but {} remain", what, count.to_string(), remaining()));
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 200;
  std::string result = "\"";
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  result += '"';
  if (text.size() > kLongest) result += fmt::format("... ({} bytes)", text.size());
  return result;
}

}  // namespace v0
}  // namespace lockstep
