#include "server/completion_request.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>

#include <fmt/format.h>

namespace lockstep {
inline namespace v0 {
namespace server {
namespace {

constexpr std::int64_t kMostChoices = 16;
constexpr std::int64_t kMostAlternatives = 20;
constexpr std::size_t kMostStops = 16;

// Parameters that are not offered, with the value that changes nothing; clients send those.
const Json& neutral_values() {
  static const Json values = Json::parse(
      R"({"best_of":1,"suffix":"","functions":[],"function_call":"none","modalities":["text"],"store":false,"verbosity":"medium"})");
  return values;
}

[[noreturn]] void refuse(const std::string& name, const char* range) {
  throw HttpError(400, fmt::format("{} must be {}", name, range));
}

double number(const Json& json, const std::string& name, double least, double most, const char* range) {
  if (!json.is_number()) refuse(name, range);
  const double value = json.get<double>();
  if (!(value >= least && value <= most)) refuse(name, range);
  return value;
}

std::int64_t integer(const Json& json, const std::string& name, std::int64_t least, std::int64_t most,
                     const char* range) {
  if (!json.is_number_integer()) refuse(name, range);
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > static_cast<std::uint64_t>(most)) refuse(name, range);
  const auto value = json.get<std::int64_t>();
  if (value < least || value > most) refuse(name, range);
  return value;
}

bool boolean(const Json& json, const std::string& name) {
  if (!json.is_boolean()) refuse(name, "true or false");
  return json.get<bool>();
}

std::string string(const Json& json, const std::string& name) {
  if (!json.is_string()) refuse(name, "a text");
  return json.get<std::string>();
}

std::vector<std::int64_t> tokens(const Json& json) {
  std::vector<std::int64_t> result;
  for (const Json& token : json)
    result.push_back(integer(token, "a token", 0, INT32_MAX, "a number of the vocabulary"));
  return result;
}

// Of parts, the texts behind one another.
std::string content_of(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  std::string result;
  if (!json.is_array()) refuse("content", "a text, or a list of parts");
  for (const Json& part : json) {
    const bool is_text = part.is_object() && part.value("type", Json()) == "text" && part.contains("text");
    if (!is_text) throw HttpError(400, "content: parts of other types than \"text\" are not offered");
    result += string(part["text"], "text");
  }
  return result;
}

// Arguments of calls are texts in OpenAI's messages, and objects in templates.
Json tool_calls_of(const Json& json) {
  Json result = json;
  if (!json.is_array()) refuse("tool_calls", "a list");
  for (Json& call : result) {
    const bool known = call.is_object() && call.contains("function") && call["function"].is_object() &&
                       call["function"].value("name", Json()).is_string();
    if (!known) refuse("each of tool_calls", "{\"type\":\"function\",\"function\":{\"name\":...}}");
    Json& arguments = call["function"]["arguments"];
    if (!arguments.is_string()) continue;
    const Json parsed = json_within(arguments.get<std::string>());
    if (parsed.is_object()) arguments = parsed;
  }
  return result;
}

void read_messages(const Json& json, CompletionRequest& request) {
  if (!json.is_array() || json.empty()) refuse("messages", "a list with at least one message");
  for (const Json& message : json) {
    const bool calls = message.is_object() && message.contains("tool_calls") && !message["tool_calls"].is_null();
    if (!message.is_object() || !message.contains("role") || (!message.contains("content") && !calls)) {
      refuse("each message", "an object with role and content");
    }
    Json read = Members().add("role", string(message["role"], "role"));
    if (read["role"] == "developer") read["role"] = "system";  // its later name, which templates do not know
    const Json content = message.value("content", Json());
    read["content"] = content.is_null() && calls ? std::string() : content_of(content);
    for (const auto& [key, value] : message.items()) {
      // Empty lists, too: messages of other servers have them, and templates ask whether there are "tool_calls".
      if (key == "role" || key == "content" || key == "name" || value.is_null() || value == Json::array()) continue;
      if (key == "tool_calls") {
        read[key] = tool_calls_of(value);
      } else if (key == "tool_call_id" || key == "reasoning_content") {
        read[key] = string(value, key);
      } else {
        throw HttpError(400, fmt::format("\"{}\" in a message is not offered", key));
      }
    }
    if (message.contains("name") && read["role"] == "tool") read["name"] = string(message["name"], "name");
    request.messages.push_back(std::move(read));
  }
}

void read_tool_choice(const Json& json, CompletionRequest& request) {
  using Kind = ToolChoice::Kind;
  if (json == "none" || json == "auto" || json == "required") {
    request.tool_choice.kind = json == "none" ? Kind::none : json == "auto" ? Kind::automatic : Kind::required;
    return;
  }
  const bool named = json.is_object() && json.value("type", Json()) == "function" && json.contains("function") &&
                     json["function"].is_object() && json["function"].value("name", Json()).is_string();
  if (!named) refuse("tool_choice", "none, auto, required, or {\"type\":\"function\",\"function\":{\"name\":...}}");
  request.tool_choice.kind = Kind::required;
  request.tool_choice.name = json["function"]["name"].get<std::string>();
}

void hold_to(text::Grammar grammar, CompletionRequest& request) {
  if (request.options.grammar) throw HttpError(400, "an answer is held to either a grammar or a response_format");
  request.options.grammar = std::move(grammar);
}

void read_response_format(const Json& json, CompletionRequest& request) {
  const std::string type = json.is_object() ? string(json.value("type", Json()), "type of response_format") : "";
  if (type == "json_object") {
    hold_to(text::Grammar::from_json_schema(R"({"type":"object"})"), request);
  } else if (type == "json_schema") {
    const Json given = json.value("json_schema", Json());
    if (!given.is_object() || !given.contains("schema")) refuse("json_schema of response_format", "an object with a schema");
    hold_to(text::Grammar::from_json_schema(text_of(given["schema"])), request);
  } else if (type != "text") {
    refuse("response_format", "an object of type text, json_object or json_schema");
  }
}

void read_logit_bias(const Json& json, models::SamplingOptions& sampling) {
  constexpr const char* kRange = "an object of tokens' numbers and biases from -100 to 100";
  if (!json.is_object() || json.size() > 1024) refuse("logit_bias", kRange);
  for (const auto& [key, value] : json.items()) {
    std::int64_t token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size() || token < 0) refuse("logit_bias", kRange);
    const double bias = number(value, "logit_bias", -100, 100, kRange);
    // OpenAI: a bias of -100 is a ban.
    sampling.logit_bias[token] = bias == -100 ? -std::numeric_limits<double>::infinity() : bias;
  }
}

void read_stops(const Json& json, CompletionRequest& request) {
  const Json list = json.is_array() ? json : Json::array({json});
  if (list.size() > kMostStops) refuse("stop", "a text or a list of at most 16");
  for (const Json& one : list) {
    if (!one.is_string() || one.get<std::string>().empty())
      refuse("stop", "a text or a list of at most 16, none empty");
    request.options.stop.push_back(one.get<std::string>());
  }
}

bool is_sampling(const std::string& key) {
  static constexpr const char* kKeys[] = {"temperature",
                                          "top_p",
                                          "min_p",
                                          "top_k",
                                          "seed",
                                          "presence_penalty",
                                          "frequency_penalty",
                                          "typical_p",
                                          "logit_bias",
                                          "repetition_penalty",
                                          "mirostat_tau",
                                          "mirostat_eta"};
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

void read_sampling(const std::string& key, const Json& value, models::SamplingOptions& sampling) {
  if (key == "temperature") {
    sampling.temperature = number(value, key, 0, 2, "a number from 0 to 2");
  } else if (key == "top_p") {
    sampling.top_p = number(value, key, 1e-9, 1, "a number above 0 and at most 1");
  } else if (key == "min_p") {
    sampling.min_p = number(value, key, 0, 1, "a number from 0 to 1");
  } else if (key == "top_k") {
    sampling.top_k = integer(value, key, 0, INT32_MAX, "a whole number, at least 0");
  } else if (key == "presence_penalty") {
    sampling.presence_penalty = number(value, key, -2, 2, "a number from -2 to 2");
  } else if (key == "frequency_penalty") {
    sampling.frequency_penalty = number(value, key, -2, 2, "a number from -2 to 2");
  } else if (key == "repetition_penalty") {
    sampling.repetition_penalty = number(value, key, 0.01, 100, "a number from 0.01 to 100");
  } else if (key == "typical_p") {
    sampling.typical_p = number(value, key, 1e-9, 1, "a number above 0 and at most 1");
  } else if (key == "mirostat_tau") {
    sampling.mirostat_tau = number(value, key, 0, 100, "a number from 0 (no) to 100");
  } else if (key == "mirostat_eta") {
    sampling.mirostat_eta = number(value, key, 1e-9, 1, "a number above 0 and at most 1");
  } else if (key == "logit_bias") {
    read_logit_bias(value, sampling);
  } else {
    const std::int64_t seed = integer(value, "seed", INT64_MIN, INT64_MAX, "a whole number of 64 bits");
    sampling.seed = static_cast<std::uint64_t>(seed);
  }
}

void read_stream_options(const Json& json, CompletionRequest& request) {
  if (!json.is_object()) refuse("stream_options", "an object");
  for (const auto& [key, value] : json.items()) {
    if (key == "include_obfuscation" && value == false) continue;
    if (key != "include_usage") throw HttpError(400, fmt::format("\"{}\" in stream_options is not offered", key));
    request.include_usage = boolean(value, key);
  }
}

void read_variables(const Json& json, CompletionRequest& request) {
  if (!json.is_object()) refuse("chat_template_kwargs", "an object");
  request.variables.update(json);
}

// What says for whom and how a request is kept elsewhere, and changes no answer.
bool is_remark(const std::string& key) {
  return key == "user" || key == "metadata" || key == "safety_identifier" || key == "service_tier" ||
         key.starts_with("prompt_cache_");
}

bool read_one(const std::string& key, const Json& value, bool chat, CompletionRequest& request) {
  constexpr const char* kTop = "a whole number from 0 to 20";
  if (key == "model") {
    request.model = string(value, key);
  } else if (key == "prompt" && !chat) {
    request.prompts = read_prompts(value, key);
  } else if (key == "messages" && chat) {
    read_messages(value, request);
  } else if (key == "max_tokens" || (key == "max_completion_tokens" && chat)) {
    request.max_tokens = integer(value, key, chat ? 1 : 0, INT32_MAX, "a whole number, at least 1");
  } else if (key == "echo" && !chat) {
    request.echo = boolean(value, key);
  } else if (key == "n") {
    request.choices = static_cast<std::size_t>(integer(value, key, 1, kMostChoices, "a whole number from 1 to 16"));
  } else if (key == "best_of" && !chat) {
    request.best_of = static_cast<std::size_t>(integer(value, key, 1, kMostChoices, "a whole number from 1 to 16"));
  } else if (key == "suffix" && !chat) {
    if (string(value, key).empty()) return true;
    request.suffix = string(value, key);
  } else if (key == "stop") {
    read_stops(value, request);
  } else if (key == "logprobs" && chat) {
    request.logprobs = boolean(value, key);
  } else if (key == "logprobs" || (key == "top_logprobs" && chat)) {
    request.options.alternatives = static_cast<std::size_t>(integer(value, key, 0, kMostAlternatives, kTop));
    request.logprobs = request.logprobs || !chat;
  } else if (key == "stream") {
    request.stream = boolean(value, key);
  } else if (key == "stream_options") {
    read_stream_options(value, request);
  } else if (key == "response_format") {
    read_response_format(value, request);
  } else if (key == "grammar") {
    hold_to(text::Grammar::from_gbnf(string(value, key), key), request);
  } else if (key == "chat_template_kwargs" && chat) {
    read_variables(value, request);
  } else if (key == "reasoning_effort" && chat) {
    request.variables[key] = string(value, key);
  } else if (key == "reasoning_format" && chat) {
    request.thoughts_apart = thoughts_apart(string(value, key));
    if (!request.thoughts_apart) refuse(key, "auto, deepseek or none");
  } else if (key == "tools" && chat) {
    if (!value.is_array()) refuse("tools", "a list");
    request.tools = value;
  } else if (key == "tool_choice" && chat) {
    read_tool_choice(value, request);
  } else if (key == "parallel_tool_calls" && chat) {
    request.tool_choice.parallel = boolean(value, key);
  } else if (is_sampling(key)) {
    read_sampling(key, value, request.options.sampling);
  } else {
    return is_remark(key);
  }
  return true;
}

}  // namespace

std::optional<bool> thoughts_apart(const std::string& reasoning_format) {
  if (reasoning_format == "none") return false;
  if (reasoning_format == "auto" || reasoning_format == "deepseek") return true;
  return {};
}

std::vector<Prompt> read_prompts(const Json& json, const std::string& name, std::size_t most) {
  if (json.is_string()) return {json.get<std::string>()};
  if (json.is_array() && !json.empty() && json[0].is_number()) return {tokens(json)};
  if (!json.is_array() || json.empty() || json.size() > most) {
    refuse(name, fmt::format("a text, a list of tokens, or a list of at most {} of these", most).c_str());
  }
  std::vector<Prompt> result;
  for (const Json& one : json) {
    if (one.is_array()) {
      result.emplace_back(tokens(one));
    } else {
      result.emplace_back(string(one, "each " + name));
    }
  }
  return result;
}

CompletionRequest completion_request(const Json& json, bool chat) {
  CompletionRequest request;
  request.options.sampling.temperature = 1;
  request.tool_choice.kind = ToolChoice::Kind::automatic;
  for (const auto& [key, value] : json.items()) {
    if (value.is_null() || read_one(key, value, chat, request)) continue;
    const auto neutral = neutral_values().find(key);
    if (neutral == neutral_values().end()) throw HttpError(400, fmt::format("there is no parameter \"{}\"", key));
    if (value != *neutral) throw HttpError(400, fmt::format("the parameter \"{}\" is not offered", key));
  }
  if (chat && request.messages.empty()) throw HttpError(400, "messages are missing");
  if (!chat && request.prompts.empty()) throw HttpError(400, "the prompt is missing");
  if (chat && request.options.alternatives > 0 && !request.logprobs) {
    throw HttpError(400, "top_logprobs needs logprobs: true");
  }
  if (request.max_tokens == 0 && !request.echo) throw HttpError(400, "max_tokens: 0 needs echo: true");
  if (request.echo && request.logprobs && request.stream) {
    throw HttpError(400, "echo with logprobs is not offered for streams");
  }
  request.options.scores_prompt = request.echo && request.logprobs;
  if (request.tools.empty()) {
    if (request.tool_choice.kind == ToolChoice::Kind::required) throw HttpError(400, "tool_choice needs tools");
    request.tool_choice.kind = ToolChoice::Kind::none;
  } else if (request.options.grammar && request.may_call()) {
    throw HttpError(400, "response_format and tools cannot be had together: say tool_choice: \"none\"");
  } else if (request.stream && request.logprobs && request.may_call()) {
    throw HttpError(400, "logprobs of a streamed answer with tools are not offered");
  }
  if (request.best_of > request.choices && (request.stream || request.max_tokens == 0)) {
    throw HttpError(400, "best_of is not offered for streams, nor for no tokens");
  }
  if (request.best_of > 1 && request.best_of < request.choices) throw HttpError(400, "best_of must be at least n");
  request.best_of = std::max(request.best_of, request.choices);
  if (request.include_usage && !request.stream) throw HttpError(400, "stream_options needs stream: true");
  return request;
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
