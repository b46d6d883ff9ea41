// Chat templates as tokens: text between tags, and what stands inside of them. Whitespace is cut as transformers' settings
// ask for (trim_blocks, lstrip_blocks) and as the signs of the tags do.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace text::jinja {

struct Token {
  enum class Kind { text, block_begin, block_end, print_begin, print_end, name, integer, number, string, sign, end };
  Kind kind = Kind::end;
  std::string text;
  int line = 0;
};

/// FormatError with the line for tags and strings without an end, and characters that mean nothing.
std::vector<Token> tokenize(std::string_view source);

}  // namespace text::jinja
}  // namespace v0
}  // namespace lockstep
