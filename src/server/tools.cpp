#include "server/tools.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/text/grammar.h>

#include "server/bare_arguments.h"
#include "server/marks.h"
#include "text/grammar/json_schema.h"
#include "text/text_stream.h"

namespace lockstep {
inline namespace v0 {
namespace server {
namespace {

constexpr std::size_t kMostTools = 64;
constexpr const char* kShortId = "[a-zA-Z0-9]{9}";

// A part of a larger schema: what refers to its root refers to `path` then.
void move_references(Json& schema, const std::string& path) {
  if (schema.is_object() && schema.contains("$ref") && schema["$ref"].is_string()) {
    const std::string to = schema["$ref"].get<std::string>();
    if (to.starts_with("#")) schema["$ref"] = path + to.substr(1);
  }
  for (Json& part : schema) {
    if (part.is_structured()) move_references(part, path);
  }
}

// The functions that may be called.
std::vector<Json> functions_of(const Json& tools, const ToolChoice& choice) {
  std::vector<Json> result;
  if (!tools.is_array()) throw HttpError(400, "tools must be a list");
  if (tools.size() > kMostTools) throw HttpError(400, fmt::format("tools: at most {}", kMostTools));
  for (const Json& tool : tools) {
    const bool is_function = tool.is_object() && tool.value("type", Json()) == "function" &&
                             tool.contains("function") && tool["function"].is_object() &&
                             tool["function"].value("name", Json()).is_string();
    if (!is_function) throw HttpError(400, "tools: each must be {\"type\":\"function\",\"function\":{\"name\":...}}");
    if (choice.name.empty() || tool["function"]["name"] == choice.name) result.push_back(tool["function"]);
  }
  if (result.empty()) {
    throw HttpError(400, choice.name.empty() ? "tools must be a list with at least one"
                                             : fmt::format("tool_choice: there is no tool \"{}\"", choice.name));
  }
  return result;
}

// The rule `call`, whose alternatives are those of `calls`, and those that it needs; #/$defs/0, ... are schemas of the
// arguments.
std::string rules_of_calls(const std::vector<Json>& functions, const Json& calls, const std::string& quote) {
  Json arguments = Json::object();
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const std::string key = std::to_string(i);
    arguments[key] = functions[i].value("parameters", Json());
    if (arguments[key].is_null()) arguments[key] = Json::parse(R"({"type":"object","additionalProperties":false})");
    move_references(arguments[key], "#/$defs/" + key);
  }
  const std::string schema = text_of(Members().add("anyOf", calls).add("$defs", arguments));
  const bool marked = quote.starts_with(kMarkBegin);
  const std::string rules = quote.empty()
                                ? text::gbnf_of_json_schema(schema)
                                : text::gbnf_of_bare_schema(schema, gbnf_of_text(quote), marked ? "\\ufdd0" : "<");
  return "call" + rules.substr(std::string_view("root").size());  // the first rule
}

Json arguments_of(std::size_t function) {
  return Members().add("$ref", fmt::format("#/$defs/{}", function));
}

// Calls that are objects.
std::string object_rules(const std::vector<Json>& functions, const ToolForm& form) {
  Json calls = Json::array();
  for (std::size_t i = 0; i < functions.size(); ++i) {
    Json call = Json::parse(R"({"type":"object","properties":{"name":{}},"required":["name"]})");
    call["properties"]["name"]["const"] = functions[i]["name"];
    call["properties"][form.arguments] = arguments_of(i);
    call["required"].push_back(form.arguments);
    if (form.short_ids) {
      call["properties"]["id"] = Members().add("type", "string").add("pattern", fmt::format("^{}$", kShortId));
    }
    calls.push_back(std::move(call));
  }
  return rules_of_calls(functions, calls, "");
}

// Behind the object that begins there; npos if it does not end.
std::size_t end_of_object(const std::string& text, std::size_t at) {
  int depth = 0;
  for (bool quoted = false; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted && c == '\\') {
      ++at;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '{' || c == '}')) {
      depth += c == '{' ? 1 : -1;
      if (depth == 0) return at + 1;
    }
  }
  return std::string::npos;
}

bool stands_at(const std::string& text, std::size_t at, const std::string& what) {
  return text.compare(at, what.size(), what) == 0;
}

// The call that begins there, {"name", "arguments", perhaps "id"}, and moves behind it; null if it is not whole.
Json call_at(const std::string& text, std::size_t& at, const ToolForm& form) {
  Json result = Json::object();
  if (!form.quote.empty()) {
    const std::size_t end = text.find('{', at);
    if (end == std::string::npos) return {};
    result["name"] = text.substr(at, end - at);
    result["arguments"] = bare_value(text, at = end, form.quote);
    return result["arguments"].is_discarded() ? Json() : result;
  }
  if (form.arguments.empty()) {
    const std::size_t end = text.find(form.separator, at);
    if (end == std::string::npos) return {};
    std::string name = text.substr(at, end - at);
    const std::size_t id = form.id.empty() ? std::string::npos : name.find(form.id);
    if (id != std::string::npos) {
      result["id"] = name.substr(id + form.id.size());
      name.resize(id);
    }
    result["name"] = name;
    at = end + form.separator.size();
  }
  const std::size_t end = end_of_object(text, at);
  if (end == std::string::npos) return {};
  Json object = json_within(text.substr(at, end - at));
  at = end;
  if (form.arguments.empty()) {
    result["arguments"] = std::move(object);
    return result;
  }
  if (!object.is_object() || !object.contains("name") || !object.contains(form.arguments)) return {};
  result["name"] = object["name"];
  result["arguments"] = object[form.arguments];
  if (form.short_ids && object.contains("id")) result["id"] = object["id"];
  return result;
}

// Mistral's templates refuse others.
std::string short_id(const std::string& text) {
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return fmt::format("{:09x}", hash >> 28);
}

struct Row {
  const char* probe;  ///< what the template makes of a call, without spaces and ends of lines
  const char* open;
  const char* between;
  const char* close;
  const char* arguments = "";
  const char* separator = "";
  const char* id = "";
  bool short_ids = false;
  const char* quote = "";
};

constexpr Row mistral_list(const char* open) {
  return {.probe = R"([TOOL_CALLS][{"name":"probe","arguments":{"q":1},"id":"call00000"}])",
          .open = open,
          .between = ", ",
          .close = "]",
          .arguments = "arguments",
          .short_ids = true};
}

// The first that fits; `open` must be there with its spaces, too.
constexpr Row kRows[] = {
    // Qwen, Hermes
    {R"(<tool_call>{"name":"probe","arguments":{"q":1}}</tool_call>)", "<tool_call>\n", "\n</tool_call>\n<tool_call>\n",
     "\n</tool_call>", "arguments"},
    // Mistral: Nemo, 7B v0.3, ...
    mistral_list("[TOOL_CALLS]["),
    mistral_list("[TOOL_CALLS] ["),
    // Devstral, Ministral 3, ...
    {.probe = R"([TOOL_CALLS]probe[ARGS]{"q":1})",
     .open = "[TOOL_CALLS]",
     .between = "[TOOL_CALLS]",
     .close = "",
     .separator = "[ARGS]",
     .short_ids = true},
    // Mistral Small 3.2
    {.probe = R"([TOOL_CALLS]probe[CALL_ID]call00000[ARGS]{"q":1})",
     .open = "[TOOL_CALLS]",
     .between = "[TOOL_CALLS]",
     .close = "",
     .separator = "[ARGS]",
     .id = "[CALL_ID]",
     .short_ids = true},
    // DeepSeek V3.1
    {.probe = R"(<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>probe<｜tool▁sep｜>{"q":1}<｜tool▁call▁end｜>)",
     .open = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>",
     .between = "<｜tool▁call▁end｜><｜tool▁call▁begin｜>",
     .close = "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     .separator = "<｜tool▁sep｜>"},
    // DeepSeek R1
    {.probe =
         R"(<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>probe```json{"q":1}```<｜tool▁call▁end｜>)",
     .open = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>",
     .between = "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
     .close = "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     .separator = "\n```json\n"},
    // Gemma 4
    {.probe = "<|tool_call>call:probe{q:1}<tool_call|>",
     .open = "<|tool_call>call:",
     .between = "<tool_call|><|tool_call>call:",
     .close = "<tool_call|>",
     .quote = "<|\"|>"},
    // Llama 3
    {R"({"name":"probe","parameters":{"q":1}})", "", "", "", "parameters"},
};

}  // namespace

Json messages_of(const Json& messages, const ToolForm& form) {
  Json result = messages;
  for (Json& message : result) {
    if (!message.contains("tool_calls")) continue;
    if (form.null_content && message["content"] == "") message["content"] = nullptr;
    for (Json& call : message["tool_calls"]) {
      Json& arguments = call["function"]["arguments"];
      if (form.text_arguments && !arguments.is_string()) arguments = text_of(arguments);
    }
  }
  return result;
}

ToolForm tool_form(const text::ChatTemplate& chat) {
  const Json conversation = Json::parse(R"({"messages":[{"role":"user","content":"u"},{"role":"assistant","content":"",
    "tool_calls":[{"id":"call00000","type":"function","function":{"name":"probe","arguments":{"q":1}}}]}],
    "tools":[{"type":"function","function":{"name":"probe","description":"d","parameters":{"type":"object","properties":{}}}}]})");
  for (const bool text_arguments : {false, true}) {
    for (const bool null_content : {false, true}) {
      ToolForm how;
      how.text_arguments = text_arguments;
      how.null_content = null_content;
      std::string text;
      try {
        Json given = conversation;
        given["messages"] = messages_of(given["messages"], how);
        text = chat.apply_json(text_of(given), {.generation_prompt = false, .now = "2025-01-01"});
      } catch (const Error&) {  // it refuses such calls: the message below says so if it does all
      }
      std::string squeezed;
      std::copy_if(text.begin(), text.end(), std::back_inserter(squeezed),
                   [](char c) { return c != ' ' && c != '\n'; });
      for (const Row& row : kRows) {
        if (squeezed.find(row.probe) == std::string::npos || text.find(row.open) == std::string::npos) continue;
        return {.open = row.open,
                .between = row.between,
                .close = row.close,
                .arguments = row.arguments,
                .separator = row.separator,
                .quote = row.quote,
                .id = row.id,
                .short_ids = row.short_ids,
                .text_arguments = text_arguments,
                .null_content = null_content};
      }
    }
  }
  throw HttpError(400,
                  "tools: this model's chat template writes no calls of functions, or in a form that is not known");
}

ToolForm with_marks(ToolForm form, const text::Tokenizer& tokenizer) {
  for (std::string* text : {&form.open, &form.between, &form.close, &form.separator, &form.quote, &form.id}) {
    *text = with_marks(*text, tokenizer, form.marks);
  }
  return form;
}

std::string call_rules(const Json& tools, const ToolChoice& choice,
                       const std::function<std::string(const std::string& name)>& head, const std::string& quote) {
  const std::vector<Json> functions = functions_of(tools, choice);
  Json calls = Json::array();
  for (std::size_t i = 0; i < functions.size(); ++i) calls.push_back(arguments_of(i));
  std::string rules = rules_of_calls(functions, calls, quote);
  // The references, in the order of the functions, are rules: ref-0, ...
  std::size_t at = 0;
  for (const Json& function : functions) {
    const std::string text = head(function["name"].get<std::string>()) + " ";
    at = rules.find("ref-", at);
    rules.insert(at, text);
    at += text.size() + 1;
  }
  return rules;
}

std::string tool_grammar(const Json& tools, const ToolChoice& choice, const ToolForm& form) {
  std::string rules;
  if (!form.arguments.empty()) {
    rules = object_rules(functions_of(tools, choice), form);
  } else {
    const std::string id = form.id.empty() ? "" : fmt::format("({} {})? ", gbnf_of_text(form.id), kShortId);
    rules = call_rules(
        tools, choice,
        [&](const std::string& name) {
          return fmt::format("{} {}{}", gbnf_of_text(name), id, gbnf_of_text(form.separator));
        },
        form.quote);
  }
  const bool several = choice.parallel && choice.name.empty() && !form.between.empty();
  rules += fmt::format("calls-begun ::= call {}{}\n",
                       several ? fmt::format("({} call)* ", gbnf_of_text(form.between)) : "", gbnf_of_text(form.close));
  if (choice.kind == ToolChoice::Kind::required) {
    return rules + fmt::format("root ::= {} calls-begun\n", gbnf_of_text(form.open));
  }
  if (form.open.empty()) return rules + "root ::= calls-begun | [^{] .* | \"\"\n";
  return rules + gbnf_until(form.open, "calls-begun", true) + "root ::= text-0\n";
}

Json call_of(const std::string& id, const Json& name, const Json& arguments) {
  const Json function = Members().add("name", name).add("arguments", text_of(arguments));
  return Members().add("id", id).add("type", "function").add("function", function);
}

Answer tool_answer(const std::string& text, const ToolForm& form, const std::string& id, bool whole) {
  Answer result;
  std::size_t at = form.open.empty() ? (text.starts_with("{") ? 0 : std::string::npos) : text.find(form.open);
  const std::size_t held = whole || at != std::string::npos ? 0 : text::possible_stop(text, {form.open});
  // Without marks: some of "open" may be there, cut off.
  result.content = without_marks(text.substr(0, at == std::string::npos ? text.size() - held : at), &form.marks);
  if (at == std::string::npos && whole) return result;
  while (result.content.ends_with('\n')) result.content.pop_back();
  if (!whole) return result;
  at += form.open.size();
  for (bool more = true; more;) {
    const Json call = call_at(text, at, form);
    more = !call.is_null() && !form.between.empty() && stands_at(text, at, form.between);
    if (call.is_null() || (!more && !stands_at(text, at, form.close)))
      return {.content = without_marks(text, &form.marks)};
    const std::string made = fmt::format("call_{}_{}", id, result.calls.size());
    result.calls.push_back(
        call_of(call.value("id", form.short_ids ? short_id(made) : made), call["name"], call["arguments"]));
    if (more) at += form.between.size();
  }
  return result;
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
