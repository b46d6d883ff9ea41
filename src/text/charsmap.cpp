#include "text/charsmap.h"

#include <cstring>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "text/unicode.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

// What a unit of a double array holds.
std::size_t offset_of(std::uint32_t unit) {
  return std::size_t{unit >> 10} << ((unit & (1u << 9)) >> 6);
}
bool has_leaf(std::uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
std::uint32_t label_of(std::uint32_t unit) {
  return unit & ((1u << 31) | 255u);  // no byte for a leaf
}
std::size_t value_of(std::uint32_t unit) {
  return unit & ((1u << 31) - 1);
}

}  // namespace

CharsMap::CharsMap(const std::string& where, std::string_view bytes) {
  const auto fail = [&](std::string_view message) {
    throw FormatError(fmt::format("{}: the table of replacements {}", where, message));
  };
  if (bytes.empty()) return;
  std::uint32_t size = 0;
  if (bytes.size() < sizeof(size)) fail("is too short");
  std::memcpy(&size, bytes.data(), sizeof(size));
  bytes.remove_prefix(sizeof(size));
  if (size > bytes.size() || size % sizeof(std::uint32_t) != 0) {
    fail(fmt::format("has {} bytes, of which a trie of {} bytes cannot be a part", bytes.size(), size));
  }
  units_.resize(size / sizeof(std::uint32_t));
  if (size > 0) std::memcpy(units_.data(), bytes.data(), size);
  replacements_ = bytes.substr(size);
  // So every replacement ends within.
  if (!replacements_.empty() && replacements_.back() != '\0') fail("does not end with a zero");
  if (!decode_utf8(replacements_)) fail("has replacements that are not UTF-8");
}

std::optional<CharsMap::Match> CharsMap::find(std::string_view text, bool longest) const {
  std::optional<Match> result;
  // Units that no well-formed trie would name end the search.
  const auto unit_at = [&](std::size_t place) { return place < units_.size() ? units_[place] : 0; };
  std::size_t place = offset_of(unit_at(0));
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0) break;
    place ^= byte;
    const std::uint32_t unit = unit_at(place);
    if (label_of(unit) != byte) break;
    place ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    const std::size_t at = value_of(unit_at(place));
    if (at >= replacements_.size()) break;
    result = Match{i + 1, std::string_view(replacements_.data() + at)};
    if (!longest) break;
  }
  return result;
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
