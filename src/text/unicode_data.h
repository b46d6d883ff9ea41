// The tables of tools/make_unicode_tables.py, taken apart when they are first asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace text {

/// In the order of the tool.
enum class UnicodeTable : std::uint8_t {
  categories,         ///< runs
  differences,        ///< runs: where steps of tokenizers see another kind than the category
  combining_classes,  ///< runs
  decompositions,
  decomposition_firsts,
  decomposition_others,
  graphemes,  ///< runs
  lower_case,
  other_cases
};

/// Reads the numbers of a table one after the other.
class UnicodeReader {
 public:
  explicit UnicodeReader(UnicodeTable table);
  bool more() const { return at_ < bytes_.size(); }
  std::uint32_t number();
  std::int32_t signed_number();

 private:
  std::span<const unsigned char> bytes_;
  std::size_t at_ = 0;
};

/// A property of all characters, at most eight bits.
class UnicodeRuns {
 public:
  explicit UnicodeRuns(UnicodeTable table);
  /// 0 behind the last character.
  std::uint32_t operator()(char32_t c) const;
  /// first << 8 | value, in ascending order; the first begins at 0.
  std::span<const std::uint32_t> runs() const { return runs_; }

 private:
  std::vector<std::uint32_t> runs_;
};

}  // namespace text
}  // namespace v0
}  // namespace lockstep
