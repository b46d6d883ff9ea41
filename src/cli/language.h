// What the commands of language models share: options, files of tokens, streaming of text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/models/language.h>
#include <lockstep/text/tokenizer.h>

#include "cli/command_line.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

/// "1,2,3". Throws UsageError.
std::vector<std::int64_t> parse_tokens(const std::string& text);

/// Text that grows token by token, as far as it cannot change any more: incomplete characters are held back.
class TextStream {
 public:
  explicit TextStream(const text::Tokenizer& tokenizer, std::vector<std::int64_t> prompt);
  /// What the token adds.
  std::string add(std::int64_t token);
  /// What was held back.
  std::string finish();
  /// Everything that was given out.
  const std::string& text() const { return given_; }

 private:
  std::string rest(const std::string& whole);

  const text::Tokenizer* tokenizer_;
  std::vector<std::int64_t> tokens_;
  std::string before_;  // the prompt's text
  std::string given_;
};

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
