// What clients ask of /v1/completions and /v1/chat/completions, checked: names, types and ranges are OpenAI's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "server/completion.h"
#include "server/json_body.h"
#include "server/tools.h"

namespace lockstep {
inline namespace v0 {
namespace server {

/// A text, or its tokens.
using Prompt = std::variant<std::string, std::vector<std::int64_t>>;

struct CompletionRequest {
  std::string model;              ///< empty: not said
  std::vector<Prompt> prompts;    ///< of /v1/completions
  Json messages = Json::array();  ///< of /v1/chat/completions, as templates read them
  Json tools = Json::array();     ///< functions that the answer may call
  Json variables = Json::object();  ///< further ones of the chat template
  ToolChoice tool_choice;         ///< none where there are no tools
  std::optional<std::int64_t> max_tokens;
  std::optional<std::string> suffix;  ///< what stands behind the answer
  std::size_t choices = 1;            ///< n: the seed of the choice i is seed + i
  std::size_t best_of = 1;            ///< so many are drawn, at least `choices`, of which the best are told
  CompletionOptions options;
  bool logprobs = false;
  bool echo = false;  ///< the prompt stands before each answer
  bool stream = false;
  bool include_usage = false;
  std::optional<bool> thoughts_apart;  ///< reasoning_format: of the chat's answer; absent: as the server is told

  bool may_call() const { return tool_choice.kind != ToolChoice::Kind::none; }
};

/// HttpError 400 naming what is wrong: a value of another type or out of range, a parameter that is not known, and one
/// that is known, but not offered, with another value than the one that changes nothing.
CompletionRequest completion_request(const Json& json, bool chat);

/// Whether thoughts are to be apart from the content: of "auto" and "deepseek", and not of "none", as llama.cpp calls
/// them. Nothing for other words.
std::optional<bool> thoughts_apart(const std::string& reasoning_format);

/// A text, a list of tokens, or a list of at most `most` of these. HttpError 400 naming it.
std::vector<Prompt> read_prompts(const Json& json, const std::string& name, std::size_t most = 64);

}  // namespace server
}  // namespace v0
}  // namespace lockstep
