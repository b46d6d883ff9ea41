#include "server/harmony.h"

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "server/marks.h"

namespace lockstep {
inline namespace v0 {
namespace server {
namespace {

constexpr std::string_view kFunctions = "functions.";

/// What stands between a message's beginning and its text.
struct Head {
  std::string channel;
  std::string to;
};

// The word behind `what` where it stands last; it ends at a space or a mark.
std::string word_behind(const std::string& text, const std::string& what) {
  std::size_t at = text.rfind(what);
  if (at == std::string::npos) return "";
  at += what.size();
  const std::size_t end = std::min(text.find(' ', at), text.find(kMarkBegin, at));
  return text.substr(at, end == std::string::npos ? end : end - at);
}

// The model may say a channel twice: the last one counts. Whom a message is to stands in front of the channel, or
// behind it.
Head head_of(const std::string& text, const HarmonyForm& form) {
  Head head{.channel = word_behind(text, form.channel), .to = word_behind(text, " to=")};
  if (head.to == "assistant" || head.to == "user") head.to.clear();
  return head;
}

void append(std::string& all, const std::string& more) {
  if (!all.empty() && !more.empty()) all += '\n';
  all += more;
}

std::string quoted(const std::string& text) {
  return gbnf_of_text(text);
}

// Messages before the last one; what is said in one; how the kind of a text is named.
std::string common_rules(const HarmonyForm& form) {
  return fmt::format(
      "said ::= [^\\ufdd0]*\n"
      "kind ::= (\" \"? ({})? \"json\")?\n"
      "before ::= ({} (\"analysis\" | \"commentary\") {} said {})*\n",
      quoted(form.constrain), quoted(form.channel), quoted(form.message), quoted(form.end + form.start + "assistant"));
}

std::string final_head(const HarmonyForm& form) {
  return fmt::format("{} kind {}", quoted(form.channel + "final"), quoted(form.message));
}

}  // namespace

std::optional<HarmonyForm> harmony_form(const text::ChatTemplate& chat, const text::Tokenizer& tokenizer) {
  HarmonyForm form;
  try {
    const std::string text = chat.apply({{"user", "u"}}, {.now = "2025-01-01"});
    if (!text.ends_with("<|start|>user<|message|>u<|end|><|start|>assistant")) return {};
    for (std::string* mark : {&form.start, &form.channel, &form.message, &form.end, &form.constrain}) {
      *mark = with_marks(*mark, tokenizer, form.marks);
    }
  } catch (const Error&) {  // it refuses such a conversation, or the tokenizer has no such texts
  }
  if (form.marks.size() < 5) return {};
  return form;
}

Json harmony_messages(const Json& messages) {
  Json result = Json::array();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    Json message = messages[i];
    if (message.contains("reasoning_content")) {
      message["thinking"] = message["reasoning_content"];
      message.erase("reasoning_content");
    }
    if (!message.contains("tool_calls") || message["tool_calls"].empty()) {
      result.push_back(std::move(message));
      continue;
    }
    if (message.contains("thinking")) message["content"] = "";  // the template takes one of both
    Json results = Json::array();
    while (i + 1 < messages.size() && messages[i + 1]["role"] == "tool") results.push_back(messages[++i]);
    // The template reads one call of a message, and names the results behind it by that.
    const Json calls = message["tool_calls"];
    std::size_t taken = 0;
    for (const Json& call : calls) {
      message["tool_calls"] = Json::array({call});
      result.push_back(message);
      message.erase("thinking");
      message["content"] = "";
      for (const Json& one : results) {
        const bool own = calls.size() == 1 || one.value("tool_call_id", Json()) == call.value("id", Json());
        if (own) result.push_back(one);
        taken += own ? 1 : 0;
      }
    }
    if (taken != results.size())
      throw HttpError(400, "tool_call_id of a tool message must be that of a call before it");
  }
  return result;
}

Json harmony_tools(Json tools) {
  for (Json& tool : tools) {
    if (tool.is_object() && tool.contains("function") && tool["function"].is_object()) {
      Json& description = tool["function"]["description"];
      if (description.is_null()) description = "";
    }
  }
  return tools;
}

std::string harmony_grammar(const Json& tools, const ToolChoice& choice, const HarmonyForm& form) {
  const std::string channel = fmt::format("{} (\"commentary\" | \"analysis\")", quoted(form.channel));
  const std::string rules = call_rules(tools, choice, [&](const std::string& name) {
    const std::string to = quoted(fmt::format(" to={}{}", kFunctions, name));
    return fmt::format("({} {} | {} {}) kind {}", channel, to, to, channel, quoted(form.message));
  });
  const std::string last = choice.kind == ToolChoice::Kind::required
                               ? std::string("call")
                               : fmt::format("(call | {} said)", final_head(form));
  return rules + common_rules(form) + fmt::format("root ::= before {}\n", last);
}

text::Grammar before_final(const HarmonyForm& form) {
  return text::Grammar::from_gbnf(common_rules(form) + fmt::format("root ::= before {}\n", final_head(form)));
}

Answer harmony_answer(const std::string& text, const HarmonyForm& form, const std::string& id, bool calls, bool apart,
                      bool whole) {
  Answer result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t head_end = text.find(form.message, at);
    if (head_end == std::string::npos) {
      // No message at all: a model that does not keep to the format.
      if (at == 0 && whole) result.content = without_marks(text);
      break;
    }
    const Head head = head_of(text.substr(at, head_end - at), form);
    const std::size_t begin = head_end + form.message.size();
    const std::size_t end = text.find(kMarkBegin, begin);
    const bool ended = end != std::string::npos;
    const std::string said = text.substr(begin, ended ? end - begin : end);
    at = !ended ? text.size() : end + (text.compare(end, form.end.size(), form.end) == 0 ? form.end.size() : 0);
    if (calls && head.to.starts_with(kFunctions)) {
      if (!ended && !whole) break;
      const Json arguments = json_within(said);
      if (arguments.is_object()) {
        result.calls.push_back(
            call_of(fmt::format("call_{}_{}", id, result.calls.size()), head.to.substr(kFunctions.size()), arguments));
      } else {
        append(result.content, said);
      }
    } else if (!head.to.empty() || head.channel == "analysis") {
      if (apart) {
        append(result.reasoning, said);
      } else {
        append(result.content, "<|channel|>analysis<|message|>" + said + (ended ? "<|end|>" : ""));
      }
    } else {
      append(result.content, said);
    }
  }
  return result;
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
