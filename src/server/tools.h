// Function calling: how a model's chat template writes calls, the grammar that an answer with calls is held to, and the
// calls of an answer.
#pragma once

#include <functional>
#include <set>
#include <string>

#include <lockstep/text/chat_template.h>
#include <lockstep/text/tokenizer.h>

#include "server/answer_parts.h"
#include "server/json_body.h"

namespace lockstep {
inline namespace v0 {
namespace server {

/// open CALL (between CALL)* close. A call is an object with the members "name" and `arguments`; or, where the latter
/// is empty, the name, `separator` and the arguments.
struct ToolForm {
  std::string open;
  std::string between;  ///< empty: an answer has one call
  std::string close;
  std::string arguments;
  std::string separator = {};
  std::string quote = {};             ///< of texts in arguments that are no JSON (server/bare_arguments.h)
  std::string id = {};                ///< stands between the name and a call's id, which may be left out
  bool short_ids = false;             ///< ids are nine letters and digits (Mistral), and objects may have one
  bool text_arguments = false;        ///< the template takes arguments as a text,
  bool null_content = false;          ///< and null as the content of a message with calls
  std::set<std::int64_t> marks = {};  ///< special tokens of these texts, in which they stand as server::mark_of
};

/// By what the template makes of a call. HttpError 400 if that is another form, or none.
ToolForm tool_form(const text::ChatTemplate& chat);

/// The form for a tokenizer in which some of its texts may be special tokens.
ToolForm with_marks(ToolForm form, const text::Tokenizer& tokenizer);

/// Messages as the template takes them; calls have arguments as objects in `messages`.
Json messages_of(const Json& messages, const ToolForm& form);

struct ToolChoice {
  enum class Kind : std::uint8_t { none, automatic, required } kind = Kind::none;
  std::string name;  ///< Only this function; empty: any.
  bool parallel = true;
};

/// GBNF of answers with calls. `tools` are checked: HttpError 400, FormatError for schemas that are not offered.
std::string tool_grammar(const Json& tools, const ToolChoice& choice, const ToolForm& form);

/// The rule `call` of GBNF, and what it needs: for each function what `head` makes of its name, and the arguments, as
/// JSON or with texts between `quote`.
std::string call_rules(const Json& tools, const ToolChoice& choice,
                       const std::function<std::string(const std::string& name)>& head, const std::string& quote = {});

Json call_of(const std::string& id, const Json& name, const Json& arguments);

/// What an answer of tool_grammar() says; ids are made from `id` where the answer has none. An answer that was cut off
/// within a call is content as a whole, without marks. Unless it is `whole`, only what is before calls.
Answer tool_answer(const std::string& text, const ToolForm& form, const std::string& id, bool whole = true);

}  // namespace server
}  // namespace v0
}  // namespace lockstep
