// The answers of gpt-oss, in OpenAI's harmony format: messages of channels, of which `analysis` is thought, `final` and
// `commentary` are shown, and one to functions.NAME calls that function and ends the answer.
#pragma once

#include <optional>
#include <set>
#include <string>

#include <lockstep/text/chat_template.h>
#include <lockstep/text/grammar.h>
#include <lockstep/text/tokenizer.h>

#include "server/tools.h"

namespace lockstep {
inline namespace v0 {
namespace server {

/// The marks of the special tokens that divide an answer.
struct HarmonyForm {
  std::string start = "<|start|>";
  std::string channel = "<|channel|>";
  std::string message = "<|message|>";
  std::string end = "<|end|>";
  std::string constrain = "<|constrain|>";
  std::set<std::int64_t> marks = {};
};

/// Nothing for a template, or a tokenizer, of other models.
std::optional<HarmonyForm> harmony_form(const text::ChatTemplate& chat, const text::Tokenizer& tokenizer);

/// As the template takes them: `reasoning_content` is `thinking`, calls are alone, each before what it gave.
Json harmony_messages(const Json& messages);
/// With descriptions, which the template wants.
Json harmony_tools(Json tools);

/// GBNF of answers with thoughts and then a call, or (unless it is required) a final message. As tool_grammar().
std::string harmony_grammar(const Json& tools, const ToolChoice& choice, const HarmonyForm& form);
/// What stands before a final message: thoughts, and its own head.
text::Grammar before_final(const HarmonyForm& form);

/// With `calls`, messages to functions are calls; other messages to somebody are thoughts, as the calls of a model's
/// own tools are. As AnswerForm::read(); a call that was cut off is content. Thoughts that are not `apart` stand in the
/// content, with the names of their marks.
Answer harmony_answer(const std::string& text, const HarmonyForm& form, const std::string& id, bool calls, bool apart,
                      bool whole);

}  // namespace server
}  // namespace v0
}  // namespace lockstep
