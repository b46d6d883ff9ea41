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

/// Text that grows token by token, as far as it cannot change any more: incomplete characters are held back.
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
  std::string rest(const std::string& whole);

  const Tokenizer* tokenizer_;
  std::vector<std::int64_t> tokens_;
  std::string before_;  // the prompt's text
  std::string given_;
};

/// Where the first of the texts begins; npos if none is there.
std::size_t find_stop(const std::string& text, const std::vector<std::string>& stops);

/// The longest end of `text` that could be the beginning of a stop text: it is shown when it is known not to be.
std::size_t possible_stop(const std::string& text, const std::vector<std::string>& stops);

}  // namespace text
}  // namespace v0
}  // namespace lockstep
