// Function calling: how a model's chat template writes calls, the grammar that an answer with calls is held to, and the
// calls of an answer.
#pragma once

#include <string>
#include <vector>

#include <lockstep/text/chat_template.h>

#include "server/json_body.h"

namespace lockstep {
inline namespace v0 {
namespace server {

/// {"name":...,"arguments":{...}} between two texts, as Qwen and Hermes write it; Llama 3 has no texts around it, and
/// calls the arguments parameters.
struct ToolForm {
  std::string open;
  std::string close;
  std::string arguments;
};

/// By what the template makes of a call. HttpError 400 if that is another form, or none.
ToolForm tool_form(const text::ChatTemplate& chat);

struct ToolChoice {
  enum class Kind : std::uint8_t { none, automatic, required } kind = Kind::none;
  std::string name;  ///< Only this function; empty: any.
  bool parallel = true;
};

/// GBNF of answers with calls. `tools` are checked: HttpError 400, FormatError for schemas that are not offered.
std::string tool_grammar(const Json& tools, const ToolChoice& choice, const ToolForm& form);

struct ToolAnswer {
  std::string content;
  Json calls = Json::array();  ///< As in OpenAI's messages; ids are made from `id`.
};

/// What an answer of that grammar says. An answer that was cut off within a call is content as a whole.
ToolAnswer tool_answer(const std::string& text, const ToolForm& form, const std::string& id);

}  // namespace server
}  // namespace v0
}  // namespace lockstep
