#include "server/answer.h"

#include <lockstep/error.h>

#include "server/marks.h"
#include "text/grammar/rules.h"

namespace lockstep {
inline namespace v0 {
namespace server {

AnswerForm::AnswerForm(const text::ChatTemplate& chat, const text::Tokenizer& tokenizer)
    : harmony_(harmony_form(chat, tokenizer)), thoughts_(thought_form(tokenizer)) {
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
  Json messages = harmony_ ? harmony_messages(request.messages) : thoughtful_messages(request.messages, thoughts_);
  if (tools_) messages = messages_of(messages, *tools_);
  Json result = Members().add("messages", messages);
  if (request.may_call()) result["tools"] = harmony_ ? harmony_tools(request.tools) : request.tools;
  return result;
}

bool AnswerForm::may_open_thoughts(const std::string& prompt) const {
  return !harmony_ && opens_thoughts(prompt, thoughts_);
}

void AnswerForm::prepare(const CompletionRequest& request, const Reading& how, CompletionOptions& options) const {
  std::optional<text::Grammar> before;  // what is asked
  if (harmony_) {
    options.marks = harmony_->marks;
    before = before_final(*harmony_);
  } else {
    options.marks = thoughts_.marks;
    if (how.opened) before = thoughts_to_end(thoughts_);
  }
  if (how.calls) {
    if (!harmony_ && !tools_) throw HttpError(400, why_no_tools_);
    options.grammar = text::Grammar::from_gbnf(harmony_ ? harmony_grammar(request.tools, request.tool_choice, *harmony_)
                                                        : tool_grammar(request.tools, request.tool_choice, *tools_),
                                               "tools");
    if (tools_) options.marks.insert(tools_->marks.begin(), tools_->marks.end());
    // Calls may come at any place, unless they must.
    if (harmony_ || request.tool_choice.kind != ToolChoice::Kind::required) return;
  }
  if (options.grammar && before) options.grammar = followed_by(*before, *options.grammar);
}

Answer AnswerForm::read(const std::string& text, const Reading& how, const std::string& id, bool whole) const {
  if (harmony_) return harmony_answer(text, *harmony_, id, how.calls, how.apart, whole);
  Answer answer = how.calls ? tool_answer(text, *tools_, id, whole) : Answer{.content = text};
  take_thoughts(answer, thoughts_, how.opened, how.apart, whole);
  return answer;
}

Json delta_of(const Answer& before, const Answer& now) {
  Json delta = Json::object();
  if (now.reasoning.size() > before.reasoning.size()) {
    delta["reasoning_content"] = now.reasoning.substr(before.reasoning.size());
  }
  if (now.content.size() > before.content.size()) delta["content"] = now.content.substr(before.content.size());
  for (std::size_t i = 0; i < now.calls.size(); ++i) {
    Json call = now.calls[i];
    call["index"] = i;
    delta["tool_calls"].push_back(std::move(call));
  }
  return delta;
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
