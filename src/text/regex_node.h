// The tree that a pattern is parsed into (regex_parser.cpp) and matched by (regex.cpp).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace text {

/// A set of characters: ranges, categories and the shorthands, possibly inverted, and cut with other sets.
struct CharacterSet {
  struct Range {
    char32_t first;
    char32_t last;
  };
  std::vector<Range> ranges;
  std::uint32_t categories = 0;
  bool spaces = false;
  bool words = false;
  std::vector<CharacterSet> parts;     ///< Sets inside, each with an inversion of its own.
  std::vector<CharacterSet> and_with;  ///< Behind "&&".
  bool inverted = false;
  bool no_case = false;

  bool contains(char32_t c) const;
};

struct RegexNode {
  enum class Kind : std::uint8_t { set, sequence, alternatives, repeat, look_ahead, look_behind, start, end };
  enum class Greed : std::uint8_t { greedy, lazy, possessive };
  static constexpr std::uint32_t kUnlimited = 0xffffffff;
  Kind kind = Kind::sequence;
  CharacterSet set;
  std::vector<RegexNode> children;
  bool negative = false;  ///< Of looks.
  std::uint32_t least = 0;
  std::uint32_t most = 0;
  Greed greed = Greed::greedy;
};

/// Whose patterns: tokenizers' (Oniguruma's, as far as theirs need it), or ECMAScript's with the flag u, which JSON
/// Schema refers to (braces that count nothing are themselves, as without the flag).
enum class RegexDialect : std::uint8_t { tokenizers, ecmascript };

/// Throws FormatError.
RegexNode parse_regex(std::string_view pattern, RegexDialect dialect = RegexDialect::tokenizers);

}  // namespace text
}  // namespace v0
}  // namespace lockstep
