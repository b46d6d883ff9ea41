#include "server/completion_request.h"

#include <cmath>

#include <fmt/format.h>

namespace lockstep {
inline namespace v0 {
namespace server {
namespace {

constexpr std::int64_t kMostChoices = 16;
constexpr std::int64_t kMostAlternatives = 20;
constexpr std::size_t kMostStops = 16;
constexpr std::size_t kMostPrompts = 64;

// Parameters that are not offered, with the value that changes nothing; clients send those.
const Json& neutral_values() {
  static const Json values = {{"frequency_penalty", 0},
                              {"presence_penalty", 0},
                              {"logit_bias", Json::object()},
                              {"best_of", 1},
                              {"echo", false},
                              {"suffix", ""},
                              {"tools", Json::array()},
                              {"tool_choice", "none"},
                              {"functions", Json::array()},
                              {"function_call", "none"},
                              {"response_format", {{"type", "text"}}},
                              {"modalities", {"text"}},
                              {"store", false}};
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

void read_prompts(const Json& json, CompletionRequest& request) {
  if (json.is_string()) {
    request.prompts.emplace_back(json.get<std::string>());
  } else if (json.is_array() && !json.empty() && json[0].is_number()) {
    request.prompts.emplace_back(tokens(json));
  } else if (json.is_array() && !json.empty() && json.size() <= kMostPrompts) {
    for (const Json& one : json) {
      if (one.is_array()) {
        request.prompts.emplace_back(tokens(one));
      } else {
        request.prompts.emplace_back(string(one, "each prompt"));
      }
    }
  } else {
    refuse("prompt", "a text, a list of tokens, or a list of at most 64 of these");
  }
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

void read_messages(const Json& json, CompletionRequest& request) {
  if (!json.is_array() || json.empty()) refuse("messages", "a list with at least one message");
  for (const Json& message : json) {
    if (!message.is_object() || !message.contains("role") || !message.contains("content")) {
      refuse("each message", "an object with role and content");
    }
    for (const auto& [key, value] : message.items()) {
      if (key != "role" && key != "content" && key != "name" && !value.is_null()) {
        throw HttpError(400, fmt::format("\"{}\" in a message is not offered", key));
      }
    }
    request.messages.push_back({string(message["role"], "role"), content_of(message["content"])});
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

void read_sampling(const std::string& key, const Json& value, models::SamplingOptions& sampling) {
  if (key == "temperature") {
    sampling.temperature = number(value, key, 0, 2, "a number from 0 to 2");
  } else if (key == "top_p") {
    sampling.top_p = number(value, key, 1e-9, 1, "a number above 0 and at most 1");
  } else if (key == "min_p") {
    sampling.min_p = number(value, key, 0, 1, "a number from 0 to 1");
  } else if (key == "top_k") {
    sampling.top_k = integer(value, key, 0, INT32_MAX, "a whole number, at least 0");
  } else {
    const std::int64_t seed = integer(value, "seed", INT64_MIN, INT64_MAX, "a whole number of 64 bits");
    sampling.seed = static_cast<std::uint64_t>(seed);
  }
}

void read_stream_options(const Json& json, CompletionRequest& request) {
  if (!json.is_object()) refuse("stream_options", "an object");
  for (const auto& [key, value] : json.items()) {
    if (key != "include_usage") throw HttpError(400, fmt::format("\"{}\" in stream_options is not offered", key));
    request.include_usage = boolean(value, key);
  }
}

bool read_one(const std::string& key, const Json& value, bool chat, CompletionRequest& request) {
  constexpr const char* kTop = "a whole number from 0 to 20";
  if (key == "model") {
    request.model = string(value, key);
  } else if (key == "prompt" && !chat) {
    read_prompts(value, request);
  } else if (key == "messages" && chat) {
    read_messages(value, request);
  } else if (key == "max_tokens" || (key == "max_completion_tokens" && chat)) {
    request.max_tokens = integer(value, key, 1, INT32_MAX, "a whole number, at least 1");
  } else if (key == "n") {
    request.choices = static_cast<std::size_t>(integer(value, key, 1, kMostChoices, "a whole number from 1 to 16"));
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
  } else if (key == "temperature" || key == "top_p" || key == "min_p" || key == "top_k" || key == "seed") {
    read_sampling(key, value, request.options.sampling);
  } else {
    return key == "user" || key == "metadata";
  }
  return true;
}

}  // namespace

CompletionRequest completion_request(const Json& json, bool chat) {
  CompletionRequest request;
  request.options.sampling.temperature = 1;
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
  if (request.include_usage && !request.stream) throw HttpError(400, "stream_options needs stream: true");
  return request;
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
