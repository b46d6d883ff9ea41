// Text that comes token by token, as commands and the server show it, and the texts at which it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/text/tokenizer.h>

namespace lockstep {
inline namespace v0 {
namespace text {

/// Text that grows token by token. What was given out stays: incomplete characters are held back, and where tokens
/// would change earlier text (byte tokens that end inside a character, which a tokenizer replaces as a whole), theirs
/// alone counts. A token costs what the few behind the last text that was whole cost, not what all do.
class TextStream {
 public:
  TextStream(const Tokenizer& tokenizer, std::vector<std::int64_t> prompt);
  /// What the token adds.
  std::string add(std::int64_t token);
  /// What was held back.
  std::string finish();
  /// Everything that was given out.
  const std::string& text() const { return given_; }

 private:
  std::string decode(std::size_t first) const;
  std::string take(bool all);

  const Tokenizer* tokenizer_;
  std::vector<std::int64_t> tokens_;  // those of the last whole text, beside which later ones are read, and these
  std::size_t later_;                 // their beginning
  std::string known_;                 // of the text of tokens_, what was given out or is the prompt's
  std::string known_later_;           // of the text of later ones alone, what was given out
  std::string given_;
};

/// Where the first of the texts begins; npos if none is there.
std::size_t find_stop(const std::string& text, const std::vector<std::string>& stops);

/// The longest end of `text` that could be the beginning of a stop text: it is shown when it is known not to be.
std::size_t possible_stop(const std::string& text, const std::vector<std::string>& stops);

}  // namespace text
}  // namespace v0
}  // namespace lockstep
