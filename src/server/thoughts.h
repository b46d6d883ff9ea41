// Thoughts that a model writes before what it says: <think> ... </think>.
#pragma once

#include <set>
#include <string>

#include <lockstep/text/grammar.h>
#include <lockstep/text/tokenizer.h>

#include "server/answer_parts.h"

namespace lockstep {
inline namespace v0 {
namespace server {

/// How thoughts begin and end. Where these are special tokens, `open` and `close` have their marks.
struct ThoughtForm {
  std::string open;
  std::string close;
  std::string open_name = open;
  std::string close_name = close;
  bool as_part = false;  ///< the template takes them as a part of a message's content (Mistral)
  std::set<std::int64_t> marks = {};
};

/// By the special tokens that are there; <think> if none is.
ThoughtForm thought_form(const text::Tokenizer& tokenizer);

/// Whether the prompt ends with their beginning, so that the answer is thoughts from its first token on.
bool opens_thoughts(const std::string& prompt, const ThoughtForm& form);

/// Thoughts that were begun, to their end.
text::Grammar thoughts_to_end(const ThoughtForm& form);

/// Messages with thoughts as the template takes them.
Json thoughtful_messages(Json messages, const ThoughtForm& form);

/// Takes them from the content, unless they are not to be `apart`: then it has the names of their marks. `opened`: the
/// content begins within them. As AnswerForm::read().
void take_thoughts(Answer& answer, const ThoughtForm& form, bool opened, bool apart, bool whole);

}  // namespace server
}  // namespace v0
}  // namespace lockstep
