// A small backtracking matcher for the patterns that tokenizers split text with: classes and their intersections,
// Unicode properties, groups, look-ahead and look-behind of one character, all quantifiers. Not more: what it does not
// know is an error that names it. Patterns and texts are untrusted: nesting, repetitions and steps are limited.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace text {

struct Match {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct RegexNode;

class Regex {
 public:
  /// `by_lines`: ^ and $ stand for the ends of lines, too, as in Oniguruma, which tokenizer.json's patterns are for.
  /// Throws FormatError for a pattern that is malformed, or has something that is not supported.
  explicit Regex(std::string_view pattern, bool by_lines = false);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  /// The leftmost match at or behind `from`. Throws ValueError after too many steps.
  std::optional<Match> search(std::u32string_view text, std::size_t from) const;
  /// All matches from left to right, without overlap; empty ones, too, but not where the one before ends.
  std::vector<Match> all(std::u32string_view text) const;

 private:
  std::unique_ptr<const RegexNode> root_;
  bool by_lines_ = false;
};

/// All places of a text that is not empty, likewise.
std::vector<Match> all_of(std::u32string_view text, std::u32string_view what);

}  // namespace text
}  // namespace v0
}  // namespace lockstep
