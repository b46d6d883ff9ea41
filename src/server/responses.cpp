#include "server/responses.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace lockstep {
inline namespace v0 {
namespace server {
namespace {

[[noreturn]] void not_offered(const std::string& what) {
  throw HttpError(400, what + " is not offered");
}

std::string member_text(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_string()) throw HttpError(400, fmt::format("{} must be a text", name));
  return found->get<std::string>();
}

std::string type_of(const Json& json) {
  return json.is_object() && json.contains("type") ? member_text(json, "type") : "";
}

// A text, or the texts of parts.
std::string text_of_parts(const Json& json, const char* name) {
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_array()) throw HttpError(400, fmt::format("{} must be a text, or a list of parts", name));
  std::string text;
  for (const Json& part : json) {
    const std::string type = type_of(part);
    if (!type.ends_with("_text")) not_offered(fmt::format("a part of the type \"{}\" in {}", type, name));
    text += member_text(part, "text");
  }
  return text;
}

/// Messages of a chat from the items of an input: thoughts, a message and calls that follow each other are one.
class Conversation {
 public:
  void add(const Json& item) {
    const std::string type = type_of(item);
    if (type == "reasoning") {
      const bool has_content = item.contains("content") && item["content"].is_array() && !item["content"].empty();
      begin(true);
      last()["reasoning_content"] =
          text_of_parts(has_content ? item["content"] : item.value("summary", Json::array()), "reasoning");
    } else if (type == "function_call") {
      Json call = Json::parse(R"({"type":"function","function":{}})");
      const std::string id = member_text(item, "call_id");
      call["id"] = id;
      call["function"]["name"] = names_[id] = member_text(item, "name");
      call["function"]["arguments"] = member_text(item, "arguments");
      begin(false);
      last()["tool_calls"].push_back(std::move(call));
    } else if (type == "function_call_output") {
      const std::string id = member_text(item, "call_id");
      Json message = Json::parse(R"({"role":"tool"})");
      message["tool_call_id"] = id;
      message["content"] = text_of_parts(item.value("output", Json()), "output");
      if (names_.contains(id)) message["name"] = names_[id];
      messages.push_back(std::move(message));
      open_ = false;
    } else if ((type.empty() || type == "message") && item.is_object()) {
      const std::string role = member_text(item, "role");
      const std::string content = text_of_parts(item.value("content", Json()), "content");
      if (role != "assistant") {
        messages.push_back(Json::object());
        last()["role"] = role;
        open_ = false;
      } else {
        begin(open_ && (last()["content"] != "" || last().contains("tool_calls")));
      }
      last()["content"] = content;
    } else {
      not_offered(fmt::format("an item of the type \"{}\" in input", type));
    }
  }

  Json messages = Json::array();

 private:
  Json& last() { return messages.back(); }

  // Has a message of the assistant stand last, one that has begun unless it is to be `another`.
  void begin(bool another) {
    if (open_ && !another) return;
    messages.push_back(Json::parse(R"({"role":"assistant","content":""})"));
    open_ = true;
  }

  bool open_ = false;
  Json names_ = Json::object();  // of the functions that were called, by the calls
};

Json chat_tool(const Json& tool) {
  if (type_of(tool) != "function") not_offered(fmt::format("a tool of the type \"{}\"", type_of(tool)));
  Json result = Json::parse(R"({"type":"function"})");
  result["function"] = tool;
  result["function"].erase("type");
  return result;
}

// Of "text": {"format": {"type": "json_schema", "name", "schema"}}.
Json response_format(const Json& format) {
  Json result = Json::object();
  result["type"] = type_of(format);
  if (result["type"] == "json_schema") result["json_schema"] = format;
  return result;
}

// Members of an object that are not null, and the words that it may have.
void each(const Json& json, const char* name,
          const std::function<bool(const std::string& key, const Json& value)>& read) {
  if (!json.is_object()) throw HttpError(400, fmt::format("{} must be an object", name));
  for (const auto& [key, value] : json.items()) {
    if (!value.is_null() && !read(key, value)) not_offered(fmt::format("\"{}\": {} in {}", key, text_of(value), name));
  }
}

bool read_member(const std::string& key, const Json& value, Conversation& conversation, Json& chat) {
  // Those of chats that have another name here, or none.
  static constexpr const char* kOthers[] = {
      "messages",      "max_tokens", "max_completion_tokens", "n",          "response_format",
      "logprobs",      "functions",  "function_call",         "modalities", "reasoning_effort",
      "stream_options"};
  if (key == "input" && value.is_string()) {
    conversation.add(Members().add("role", "user").add("content", value));
  } else if (key == "input") {
    if (!value.is_array()) throw HttpError(400, "input must be a text, or a list of items");
    for (const Json& item : value) conversation.add(item);
  } else if (key == "max_output_tokens") {
    if (!value.is_number_integer() || value < 1) throw HttpError(400, key + " must be a whole number, at least 1");
    chat["max_tokens"] = value;
  } else if (key == "tools") {
    if (!value.is_array()) throw HttpError(400, "tools must be a list");
    for (const Json& tool : value) chat["tools"].push_back(chat_tool(tool));
  } else if (key == "tool_choice") {
    chat[key] = value.is_object() ? chat_tool(value) : value;
  } else if (key == "text") {
    each(value, "text", [&](const std::string& name, const Json& given) {
      if (name == "format") chat["response_format"] = response_format(given);
      return name == "format" || (name == "verbosity" && given == "medium");
    });
  } else if (key == "reasoning") {
    each(value, "reasoning", [&](const std::string& name, const Json& given) {
      if (name == "effort") chat["reasoning_effort"] = given;
      return name == "effort" || (name == "summary" && given == "auto");
    });
  } else if (key == "include") {
    // Thoughts are there as they are.
    return value == Json::array() || value == Json::array({"reasoning.encrypted_content"});
  } else if (key == "previous_response_id" || key == "conversation") {
    throw HttpError(400, key + ": nothing is kept here; send the conversation as a whole, in input");
  } else if (key == "truncation" || key == "background" || key == "top_logprobs") {
    return value == "disabled" || value == false || value == 0;
  } else if (std::find(std::begin(kOthers), std::end(kOthers), key) != std::end(kOthers)) {
    throw HttpError(400, fmt::format("there is no parameter \"{}\"", key));
  } else {
    chat[key] = value;
  }
  return true;
}

}  // namespace

Json chat_request_of(const Json& asked) {
  Json chat = Json::object();
  Conversation conversation;
  const auto instructions = asked.find("instructions");
  if (instructions != asked.end() && !instructions->is_null()) {
    conversation.add(Members().add("role", "system").add("content", member_text(asked, "instructions")));
  }
  for (const auto& [key, value] : asked.items()) {
    if (value.is_null() || key == "instructions") continue;
    if (!read_member(key, value, conversation, chat)) not_offered(fmt::format("this value of \"{}\"", key));
  }
  if (!asked.contains("input")) throw HttpError(400, "the input is missing");
  chat["messages"] = std::move(conversation.messages);
  return chat;
}

// With the place of the item, and that of its part. `value` is the event's own member.
void ResponseOutput::emit(const char* type, const char* name, const Json& value) {
  Members event;
  event.add("output_index", items_.size() - 1);
  if (name != std::string_view("item")) event.add("item_id", item()["id"]);
  if (!open_.empty() && name != std::string_view("item")) event.add("content_index", 0);
  event.add(name, value);
  if (open_ == "output_text" && name != std::string_view("part")) event.add("logprobs", Json::array());
  emit_(fmt::format("response.{}", type), event);
}

void ResponseOutput::begin(const char* item, const char* letters) {
  items_.push_back(Json::parse(item));
  this->item()["id"] = fmt::format("{}_{}_{}", letters, id_, items_.size() - 1);
  this->item()["status"] = "in_progress";
}

void ResponseOutput::text(const char* kind, const Json& more) {
  if (open_ != kind) {
    close("completed");
    const bool thought = kind == std::string_view("reasoning_text");
    begin(thought ? R"({"type":"reasoning","summary":[],"content":[]})"
                  : R"({"type":"message","role":"assistant","content":[]})",
          thought ? "rs" : "msg");
    emit("output_item.added", "item", item());
    Json part = Members().add("type", kind).add("text", "");
    if (!thought) part["annotations"] = part["logprobs"] = Json::array();
    open_ = kind;
    emit("content_part.added", "part", part);
    item()["content"].push_back(std::move(part));
  }
  std::string& text = item()["content"][0]["text"].get_ref<std::string&>();
  text += more.get_ref<const std::string&>();
  emit((open_ + ".delta").c_str(), "delta", more);
}

void ResponseOutput::call(const Json& given) {
  const Json& function = given["function"];
  begin(R"({"type":"function_call","arguments":""})", "fc");
  item()["call_id"] = given["id"];
  item()["name"] = function["name"];
  emit("output_item.added", "item", item());
  const Json& arguments = item()["arguments"] = function["arguments"];
  emit("function_call_arguments.delta", "delta", arguments);
  emit("function_call_arguments.done", "arguments", arguments);
  end("completed");
}

void ResponseOutput::end(const char* status) {
  item()["status"] = status;
  emit("output_item.done", "item", item());
}

void ResponseOutput::add(const Json& delta) {
  if (delta.contains("reasoning_content")) text("reasoning_text", delta["reasoning_content"]);
  if (delta.contains("content")) text("output_text", delta["content"]);
  if (!delta.contains("tool_calls")) return;
  close("completed");
  for (const Json& one : delta["tool_calls"]) call(one);
}

void ResponseOutput::close(const char* status) {
  if (open_.empty()) return;
  const Json& part = item()["content"][0];
  emit((open_ + ".done").c_str(), "text", part["text"]);
  emit("content_part.done", "part", part);
  open_.clear();
  end(status);
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
