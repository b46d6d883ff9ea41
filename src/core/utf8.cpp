#include "core/utf8.h"

namespace lockstep {
inline namespace v0 {

Utf8Character first_character(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = at(0);
  if (first < 0x80) return {1, true, first};
  if (first < 0xc2 || first > 0xf4) return {};
  const std::size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  char32_t value = first & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if (i >= text.size()) return {i};
    const unsigned next = at(i);
    unsigned low = 0x80;
    unsigned high = 0xbf;
    // The second byte rules out long forms, surrogates and what lies behind U+10FFFF.
    if (i == 1 && first == 0xe0) low = 0xa0;
    if (i == 1 && first == 0xed) high = 0x9f;
    if (i == 1 && first == 0xf0) low = 0x90;
    if (i == 1 && first == 0xf4) high = 0x8f;
    if (next < low || next > high) return {i};
    value = value << 6 | (next & 0x3f);
  }
  return {length, true, value};
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Character next = first_character(text);
    if (!next.valid) return false;
    text.remove_prefix(next.bytes);
  }
  return true;
}

}  // namespace v0
}  // namespace lockstep
