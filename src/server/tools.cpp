#include "server/tools.h"

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/text/grammar.h>

namespace lockstep {
inline namespace v0 {
namespace server {
namespace {

constexpr std::size_t kMostTools = 64;

std::string quoted_gbnf(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '\n') {
      result += "\\n";
    } else {
      if (c == '"' || c == '\\') result += '\\';
      result += c;
    }
  }
  return result + "\"";
}

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

Json schema_of_calls(const Json& tools, const ToolChoice& choice, const ToolForm& form) {
  Json calls = Json::array();
  if (tools.size() > kMostTools) throw HttpError(400, fmt::format("tools: at most {}", kMostTools));
  for (const Json& tool : tools) {
    const bool is_function = tool.is_object() && tool.value("type", Json()) == "function" &&
                             tool.contains("function") && tool["function"].is_object() &&
                             tool["function"].value("name", Json()).is_string();
    if (!is_function) throw HttpError(400, "tools: each must be {\"type\":\"function\",\"function\":{\"name\":...}}");
    const Json& function = tool["function"];
    const std::string name = function["name"].get<std::string>();
    if (!choice.name.empty() && choice.name != name) continue;
    const std::string place = fmt::format("#/anyOf/{}/properties/{}", calls.size(), form.arguments);
    Json arguments = function.value("parameters", Json{{"type", "object"}, {"additionalProperties", false}});
    move_references(arguments, place);
    calls.push_back({{"type", "object"},
                     {"properties", {{"name", {{"const", name}}}, {form.arguments, std::move(arguments)}}},
                     {"required", {"name", form.arguments}}});
  }
  if (calls.empty()) {
    throw HttpError(400, choice.name.empty() ? "tools must be a list with at least one"
                                             : fmt::format("tool_choice: there is no tool \"{}\"", choice.name));
  }
  return {{"anyOf", std::move(calls)}};
}

// Texts in which `open` does not stand, and then perhaps `tools`: the automaton of Knuth, Morris and Pratt, as rules.
std::string until_call(const std::string& open) {
  std::vector<std::size_t> back(open.size(), 0);
  for (std::size_t i = 1, k = 0; i < open.size(); ++i) {
    while (k > 0 && open[i] != open[k]) k = back[k - 1];
    if (open[i] == open[k]) ++k;
    back[i] = k;
  }
  const auto step = [&](std::size_t state, char c) {
    while (state > 0 && open[state] != c) state = back[state - 1];
    return open[state] == c ? state + 1 : 0;
  };
  std::string rules;
  for (std::size_t state = 0; state < open.size(); ++state) {
    std::string others = "[^";
    std::string own;
    std::string seen;
    for (const char c : open) {
      if (seen.find(c) != std::string::npos) continue;
      seen += c;
      others += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
      const std::size_t next = step(state, c);
      own += fmt::format(" | \"\\x{:02x}\" {}", static_cast<unsigned>(c),
                         next == open.size() ? std::string("calls-begun") : fmt::format("text-{}", next));
    }
    rules += fmt::format("text-{} ::= {}] text-0{} | \"\"\n", state, others, own);
  }
  return rules;
}

}  // namespace

ToolForm tool_form(const text::ChatTemplate& chat) {
  const Json call = {
      {"id", "call00000"}, {"type", "function"}, {"function", {{"name", "probe"}, {"arguments", {{"q", 1}}}}}};
  const Json tool = {{"type", "function"},
                     {"function",
                      {{"name", "probe"},
                       {"description", "d"},
                       {"parameters", {{"type", "object"}, {"properties", Json::object()}}}}}};
  const Json messages = {{{"role", "user"}, {"content", "u"}},
                         {{"role", "assistant"}, {"content", ""}, {"tool_calls", {call}}}};
  std::string text;
  try {
    text = chat.apply_json(Json{{"messages", messages}, {"tools", {tool}}}.dump(), {.generation_prompt = false});
  } catch (const Error&) {  // it refuses calls: the message below says so
  }
  const auto squeezed = [&](std::size_t from) {
    std::string result;
    for (const char c : text.substr(from)) {
      if (c != ' ' && c != '\n') result += c;
    }
    return result;
  };
  const std::size_t hermes = text.rfind("<tool_call>");
  if (hermes != std::string::npos &&
      squeezed(hermes).starts_with(R"(<tool_call>{"name":"probe","arguments":{"q":1}}</tool_call>)")) {
    return {"<tool_call>\n", "\n</tool_call>", "arguments"};
  }
  const std::size_t bare = text.rfind(R"({"name": "probe", "parameters": )");
  if (bare != std::string::npos) return {"", "", "parameters"};
  throw HttpError(400,
                  "tools: this model's chat template writes no calls of functions, or in a form that is not known");
}

std::string tool_grammar(const Json& tools, const ToolChoice& choice, const ToolForm& form) {
  if (!tools.is_array()) throw HttpError(400, "tools must be a list");
  std::string rules = text::gbnf_of_json_schema(text_of(schema_of_calls(tools, choice, form)));
  rules = "call" + rules.substr(std::string_view("root").size());  // which is its first rule
  const bool several = choice.parallel && choice.name.empty() && !form.open.empty();
  rules += fmt::format(
      "calls-begun ::= call {}{}\n", quoted_gbnf(form.close),
      several ? fmt::format(" (\"\\n\" {} call {})*", quoted_gbnf(form.open), quoted_gbnf(form.close)) : "");
  if (choice.kind == ToolChoice::Kind::required) {
    return rules + fmt::format("root ::= {} calls-begun\n", quoted_gbnf(form.open));
  }
  if (form.open.empty()) return rules + "root ::= calls-begun | [^{] .* | \"\"\n";
  return rules + until_call(form.open) + "root ::= text-0\n";
}

ToolAnswer tool_answer(const std::string& text, const ToolForm& form, const std::string& id) {
  ToolAnswer result;
  std::size_t at = form.open.empty() ? (text.starts_with("{") ? 0 : std::string::npos) : text.find(form.open);
  result.content = text.substr(0, at);
  while (at != std::string::npos && at < text.size()) {
    const std::size_t begin = at + form.open.size();
    const std::size_t end = form.close.empty() ? text.size() : text.find(form.close, begin);
    const Json call = end == std::string::npos ? Json() : Json::parse(text.substr(begin, end - begin), nullptr, false);
    if (!call.is_object() || !call.contains("name") || !call.contains(form.arguments)) return {text, Json::array()};
    result.calls.push_back({{"id", fmt::format("call_{}_{}", id, result.calls.size())},
                            {"type", "function"},
                            {"function", {{"name", call["name"]}, {"arguments", text_of(call[form.arguments])}}}});
    at = form.open.empty() ? std::string::npos : text.find(form.open, end);
  }
  while (!result.calls.empty() && result.content.ends_with('\n')) result.content.pop_back();
  return result;
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
