#include "server/thoughts.h"

#include <array>

#include <lockstep/error.h>

#include "server/marks.h"
#include "text/text_stream.h"

namespace lockstep {
inline namespace v0 {
namespace server {
namespace {

constexpr const char* kSpaces = " \t\r\n";

std::string without_end(std::string text) {
  text.resize(text.find_last_not_of(kSpaces) + 1);
  return text;
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(kSpaces);
  return first == std::string::npos ? "" : without_end(text.substr(first));
}

void replace(std::string& text, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
}

}  // namespace

ThoughtForm thought_form(const text::Tokenizer& tokenizer) {
  // Of Mistral and Gemma 4; other vocabularies have such texts without a meaning.
  const std::array<ThoughtForm, 2> special = {
      ThoughtForm{.open = "[THINK]", .close = "[/THINK]", .as_part = true},
      ThoughtForm{.open = "<|channel>thought\n", .close = "<channel|>"},
  };
  const auto marked = [&](ThoughtForm form) {
    try {
      for (std::string* text : {&form.open, &form.close}) *text = with_marks(*text, tokenizer, form.marks);
    } catch (const ValueError&) {  // the tokenizer has no such texts
    }
    return form;
  };
  for (const ThoughtForm& form : special) {
    ThoughtForm found = marked(form);
    if (found.marks.size() == 2) return found;
  }
  return marked({.open = "<think>", .close = "</think>"});
}

bool opens_thoughts(const std::string& prompt, const ThoughtForm& form) {
  return without_end(prompt).ends_with(without_end(form.open_name));
}

text::Grammar thoughts_to_end(const ThoughtForm& form) {
  return text::Grammar::from_gbnf(gbnf_until(form.close, "spaces", false) +
                                  "spaces ::= [ \\n]{0,2}\nroot ::= text-0\n");
}

Json thoughtful_messages(Json messages, const ThoughtForm& form) {
  if (!form.as_part) return messages;
  for (Json& message : messages) {
    if (!message.contains("reasoning_content")) continue;
    Json parts = Json::parse(R"([{"type":"thinking"},{"type":"text"}])");
    parts[0]["thinking"] = message["reasoning_content"];
    parts[1]["text"] = message["content"];
    message["content"] = std::move(parts);
    message.erase("reasoning_content");
  }
  return messages;
}

void take_thoughts(Answer& answer, const ThoughtForm& form, bool opened, bool apart, bool whole) {
  std::string text = std::move(answer.content);
  answer.content.clear();
  if (!apart) {
    replace(text, form.open, form.open_name);
    replace(text, form.close, form.close_name);
    answer.content = std::move(text);
    return;
  }
  std::size_t at = 0;
  if (!opened) {
    const std::size_t first = std::min(text.find_first_not_of(kSpaces), text.size());
    const std::string_view rest = std::string_view(text).substr(first);
    if (!rest.starts_with(form.open)) {
      if (whole || !form.open.starts_with(rest)) answer.content = without_marks(std::move(text));
      return;
    }
    at = first + form.open.size();
  }
  const std::size_t close = text.find(form.close, at);
  std::string thoughts = text.substr(at, close == std::string::npos ? close : close - at);
  if (close == std::string::npos) {
    if (!whole) thoughts.resize(thoughts.size() - text::possible_stop(thoughts, {form.close}));
  } else {
    text.erase(0, close + form.close.size());
    const std::size_t first = text.find_first_not_of(kSpaces);
    if (first != std::string::npos) answer.content = without_marks(text.substr(first));
  }
  answer.reasoning = trimmed(without_marks(std::move(thoughts)));
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
