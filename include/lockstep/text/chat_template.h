// Chat templates: how a conversation becomes the text that a chat model was trained on. Published models bring one, written
// in Jinja; it runs here with the semantics of transformers' apply_chat_template, without input or output, and within
// limits on steps, depth and text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/export.h>

namespace lockstep {
inline namespace v0 {
namespace text {

/// What somebody said.
struct ChatMessage {
  std::string role;  ///< "system", "user", "assistant"
  std::string content;
};

struct ChatTemplateOptions {
  /// Ends with what begins an answer.  transformers: add_generation_prompt
  bool generation_prompt = true;
  /// The date for templates that ask for one: "2026-11-23", or with a time, "2026-11-23 14:05:09" (ValueError for other texts).
  /// Empty: there is no strftime_now, and most templates use a date of their own, so that a text is the same every day.
  std::string now = {};
  /// Further variables that the template may read, as a JSON object: {"enable_thinking":false}. FormatError if it is
  /// none. They do not replace "messages" and "tools".  transformers: chat_template_kwargs
  std::string variables = {};
};

/// A template, parsed; it can be applied from several threads.
class LOCKSTEP_API ChatTemplate {
 public:
  /// From its source, with the variables that it may read, as a JSON object: {"bos_token":"<s>","eos_token":"</s>"}.
  /// FormatError with the line where the source is no template, or `variables` no JSON object.
  explicit ChatTemplate(std::string_view source, std::string_view variables = "{}");
  /// Of a language model: a folder of Hugging Face (chat_template.jinja, or chat_template in tokenizer_config.json; of several,
  /// the one named "default"; a path to one of its files stands for the folder) or a GGUF file. IoError or FormatError for
  /// files that cannot be read; ValueError if the model has no template.
  static ChatTemplate load(const std::string& path);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  /// The text of a conversation. ValueError where the template refuses it (raise_exception), FormatError for what goes
  /// wrong in the template, or goes beyond a limit.
  std::string apply(const std::vector<ChatMessage>& messages, const ChatTemplateOptions& options = {}) const;
  /// The same of a JSON object of variables: "messages" (with tool calls, parts, ...), "tools", "documents" and whatever
  /// else the template reads.
  std::string apply_json(std::string_view variables, const ChatTemplateOptions& options = {}) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace text
}  // namespace v0
}  // namespace lockstep
