// The tokens of a Metal text: enough to find kernels, attributes and threadgroup variables. Macros are not expanded,
// but one can ask what a name may expand to.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace emulator {

struct Token {
  std::size_t begin = 0, end = 0;  ///< in the text
  std::string_view text;
};

struct Lexed {
  std::vector<Token> tokens;                              ///< outside preprocessor lines
  std::map<std::string_view, std::vector<Token>> macros;  ///< what a name is defined as
  std::vector<std::string_view> pragmas;                  ///< the lines

  /// Whether a token, or anything that it may expand to, is one of those.
  bool reaches(const Token& token, const std::function<bool(std::string_view)>& wanted) const;
};

/// The views refer to `text`.
Lexed lex(std::string_view text);

bool is_word(std::string_view token);

}  // namespace emulator
