// UTF-8, a character at a time.
#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep {
inline namespace v0 {

/// What stands at the front of a text. Of an ill-formed sequence the bytes of its maximal part, as the Unicode standard
/// has it, and U+FFFD.
struct Utf8Character {
  std::size_t bytes = 1;
  bool valid = false;
  char32_t code = 0xfffd;
};

/// Of a text that is not empty.
Utf8Character first_character(std::string_view text);

bool is_utf8(std::string_view text);

}  // namespace v0
}  // namespace lockstep
