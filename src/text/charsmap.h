// SentencePiece's table of replacements (`precompiled_charsmap`): a trie of byte strings, and what becomes of each. The
// trie is a double array as Darts-clone makes it (Yata): https://github.com/s-yata/darts-clone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace text {

class CharsMap {
 public:
  struct Match {
    std::size_t bytes = 0;     ///< of the text
    std::string_view by = {};  ///< refers to the table
  };

  /// One that replaces nothing.
  CharsMap() = default;
  /// The file's bytes: the size of the trie, the trie, the replacements, each with a zero behind it; no bytes: nothing
  /// is replaced. FormatError naming `where` if they are malformed.
  CharsMap(const std::string& where, std::string_view bytes);

  /// Of the keys that the text begins with.
  std::optional<Match> shortest(std::string_view text) const { return find(text, false); }
  std::optional<Match> longest(std::string_view text) const { return find(text, true); }

 private:
  std::optional<Match> find(std::string_view text, bool longest) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace text
}  // namespace v0
}  // namespace lockstep
