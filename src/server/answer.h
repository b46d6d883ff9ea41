// What an answer of a chat says: thoughts, content and calls of functions, read from the text that a model draws.
#pragma once

#include <optional>
#include <string>

#include <lockstep/text/chat_template.h>
#include <lockstep/text/tokenizer.h>

#include "server/answer_parts.h"
#include "server/completion_request.h"
#include "server/harmony.h"
#include "server/thoughts.h"
#include "server/tools.h"

namespace lockstep {
inline namespace v0 {
namespace server {

/// What is new in an answer that was `before`, as a chunk of a chat has it.
Json delta_of(const Answer& before, const Answer& now);

/// How an answer is to be read.
struct Reading {
  bool calls = false;
  bool apart = true;    ///< thoughts are no content
  bool opened = false;  ///< the prompt begins them
};

/// How the answers of a model are written, as its chat template shows.
class AnswerForm {
 public:
  AnswerForm(const text::ChatTemplate& chat, const text::Tokenizer& tokenizer);

  /// The variables "messages" and "tools" as the template takes them.
  Json variables(const CompletionRequest& request) const;
  /// Whether the prompt ends as one does that begins thoughts; what the conversation ends with may look so, too.
  bool may_open_thoughts(const std::string& prompt) const;
  /// Has an answer stand in its text as read() needs it, and holds it to what is asked. HttpError 400 where there may
  /// be calls, and the template writes none.
  void prepare(const CompletionRequest& request, const Reading& how, CompletionOptions& options) const;
  /// `id` begins those of calls. Unless it is `whole`, what will not change when more comes: a beginning of each part.
  Answer read(const std::string& text, const Reading& how, const std::string& id, bool whole) const;

 private:
  std::optional<HarmonyForm> harmony_;
  ThoughtForm thoughts_;
  std::optional<ToolForm> tools_;
  std::string why_no_tools_;
};

}  // namespace server
}  // namespace v0
}  // namespace lockstep
