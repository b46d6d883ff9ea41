// A grammar as the matcher reads it: rules whose symbols are sets of bytes and other rules. Characters beyond ASCII are
// sequences of bytes, so that a token may end within one.
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/text/grammar.h>

namespace lockstep {
inline namespace v0 {
namespace text {

using ByteSet = std::bitset<256>;
/// Inclusive, of code points.
using CharacterRange = std::pair<char32_t, char32_t>;

/// Sorted, without overlaps, without the surrogates, which UTF-8 cannot say; of all others: `negated`.
std::vector<CharacterRange> normal_ranges(std::vector<CharacterRange> ranges, bool negated);

struct Grammar::Rules {
  enum class Kind : std::uint8_t { end, bytes, rule };
  struct Symbol {
    Kind kind = Kind::end;
    std::uint32_t index = 0;  ///< Into `sets` or `alternatives`.
  };
  std::vector<Symbol> symbols;  ///< Of all sequences, each closed by an end.
  std::vector<ByteSet> sets;
  std::vector<std::vector<std::uint32_t>> alternatives;  ///< Of each rule: where sequences begin.
  std::uint32_t root = 0;
};

/// Puts rules together. Numbers of rules are given before their sequences are known.
class RulesBuilder {
 public:
  using Symbol = Grammar::Rules::Symbol;
  using Sequence = std::vector<Symbol>;

  explicit RulesBuilder(std::string file) : file_(std::move(file)) {}

  std::uint32_t new_rule();
  /// FormatError if so many symbols more would be over 200,000.
  void check_room(std::size_t more) const;
  void add(std::uint32_t rule, const Sequence& sequence);
  static Symbol rule(std::uint32_t index) { return {Grammar::Rules::Kind::rule, index}; }
  /// One of these bytes.
  Symbol bytes(const ByteSet& set);
  /// One character of the ranges (of all others: `negated`).
  Symbol characters(std::vector<CharacterRange> ranges, bool negated);
  /// The symbol so many times; `most` < 0: without end.
  Sequence repeated(const Symbol& symbol, std::int64_t least, std::int64_t most);
  /// FormatError for left recursion, and if there is no text at all.
  Grammar finish(std::uint32_t root);

 private:
  std::string file_;
  Grammar::Rules rules_;
  std::map<std::string, std::uint32_t> sets_;
  std::map<std::vector<CharacterRange>, Symbol> classes_;
};

/// Texts of the one grammar, each with one of the other behind it. FormatError beyond 200,000 symbols.
Grammar followed_by(const Grammar& first, const Grammar& second);

}  // namespace text
}  // namespace v0
}  // namespace lockstep
