#include "server/answer.h"

#include <lockstep/error.h>

#include "server/marks.h"
#include "text/grammar/rules.h"

namespace lockstep {
inline namespace v0 {
namespace server {

AnswerForm::AnswerForm(const text::ChatTemplate& chat, const text::Tokenizer& tokenizer)
    : harmony_(harmony_form(chat, tokenizer)) {
  if (harmony_) return;
  try {
    tools_ = with_marks(tool_form(chat), tokenizer);
  } catch (const HttpError& error) {  // it writes none, as requests with tools are told
    why_no_tools_ = error.what();
  } catch (const ValueError& error) {  // nor can the tokenizer
    why_no_tools_ = error.what();
  }
}

Json AnswerForm::variables(const CompletionRequest& request) const {
  Json result = {{"messages", harmony_ ? harmony_messages(request.messages)
                              : tools_ ? messages_of(request.messages, *tools_)
                                       : request.messages}};
  if (request.may_call()) result["tools"] = harmony_ ? harmony_tools(request.tools) : request.tools;
  return result;
}

void AnswerForm::prepare(const CompletionRequest& request, CompletionOptions& options) const {
  if (request.may_call() && !harmony_ && !tools_) throw HttpError(400, why_no_tools_);
  if (harmony_) {
    options.marks = harmony_->marks;
    if (options.grammar) options.grammar = followed_by(before_final(*harmony_), *options.grammar);
  } else if (request.may_call()) {
    options.marks = tools_->marks;
  }
  if (!request.may_call()) return;
  options.grammar =
      text::Grammar::from_gbnf(harmony_ ? harmony_grammar(request.tools, request.tool_choice, *harmony_)
                                        : tool_grammar(request.tools, request.tool_choice, *tools_),
                               "tools");
}

Answer AnswerForm::read(const std::string& text, const CompletionRequest& request, const std::string& id,
                        bool whole) const {
  if (harmony_) return harmony_answer(text, *harmony_, id, request.may_call(), true, whole);
  if (request.may_call()) return tool_answer(text, *tools_, id, whole);
  return {.content = text};
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
