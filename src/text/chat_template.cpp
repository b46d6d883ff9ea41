#include <lockstep/text/chat_template.h>

#include <array>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "core/json_excess.h"
#include "core/os.h"
#include "io/gguf.h"
#include "io/json_fields.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

using jinja::Json;
using jinja::Value;

constexpr const char* kVariables = "ChatTemplate: the variables";

Json parse_object(const std::string& what, std::string_view text) {
  constexpr std::uint64_t kMostValues = std::uint64_t{1} << 30;  // 46,000 names in an object
  if (const char* excess = json_excess(text, 4 * jinja::kDeepest, kMostValues)) {
    throw FormatError(fmt::format("{}: the JSON {}", what, excess));
  }
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) throw FormatError(what + ": no JSON object");
  return json;
}

struct Moment {
  std::chrono::year_month_day date{};
  std::array<int, 3> time{};
};

Moment moment_of(const std::string& text) {
  const auto number = [&](std::size_t at, std::size_t digits) {
    int value = -1;
    if (at + digits > text.size()) return -1;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + at + digits, value);
    return error == std::errc() && end == text.data() + at + digits ? value : -1;
  };
  Moment moment;
  const int year = number(0, 4), month = number(5, 2), day = number(8, 2);
  bool valid = (text.size() == 10 || text.size() == 19) && text[4] == '-' && text[7] == '-' && year > 0 && month > 0 && day > 0;
  if (valid) {
    moment.date = std::chrono::year(year) / month / day;
    valid = moment.date.ok();
  }
  for (std::size_t i = 0; valid && text.size() == 19 && i < 3; ++i) {
    moment.time[i] = number(11 + 3 * i, 2);
    valid = text[10 + 3 * i] == (i == 0 ? ' ' : ':') && moment.time[i] >= 0 && moment.time[i] < (i == 0 ? 24 : 60);
  }
  if (!valid) throw ValueError(fmt::format("ChatTemplate: {} is no date like 2026-11-23 or 2026-11-23 14:05:09", in_quotes(text)));
  return moment;
}

constexpr std::array<std::string_view, 12> kMonths = {"January", "February", "March",     "April",   "May",      "June",
                                                      "July",    "August",   "September", "October", "November", "December"};
constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};

// strftime in English.
std::string formatted(const Moment& moment, const std::string& format) {
  const auto month = static_cast<unsigned>(moment.date.month()), day = static_cast<unsigned>(moment.date.day());
  const int year = static_cast<int>(moment.date.year());
  const std::string_view month_name = kMonths[month - 1];
  const std::string_view day_name = kDays[std::chrono::weekday(std::chrono::sys_days(moment.date)).c_encoding()];
  std::string result;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      result += format[i];
      continue;
    }
    const bool plain = format[i + 1] == '-' && i + 2 < format.size();  // without zeros in front
    i += plain ? 2 : 1;
    const auto two = [&](auto value) { return plain ? fmt::format("{}", value) : fmt::format("{:02}", value); };
    switch (format[i]) {
      case 'Y': result += fmt::format("{:04}", year); break;
      case 'y': result += two(year % 100); break;
      case 'm': result += two(month); break;
      case 'd': result += two(day); break;
      case 'e': result += fmt::format("{:2}", day); break;
      case 'B': result += month_name; break;
      case 'b': result += month_name.substr(0, 3); break;
      case 'A': result += day_name; break;
      case 'a': result += day_name.substr(0, 3); break;
      case 'H': result += two(moment.time[0]); break;
      case 'M': result += two(moment.time[1]); break;
      case 'S': result += two(moment.time[2]); break;
      case 'I': result += two((moment.time[0] + 11) % 12 + 1); break;
      case 'p': result += moment.time[0] < 12 ? "AM" : "PM"; break;
      case 'F': result += fmt::format("{:04}-{:02}-{:02}", year, month, day); break;
      case 'T': result += fmt::format("{:02}:{:02}:{:02}", moment.time[0], moment.time[1], moment.time[2]); break;
      case '%': result += '%'; break;
      default: jinja::fail(fmt::format("strftime_now: %{} is not done", format[i]));
    }
  }
  return result;
}

constexpr std::array<const char*, 6> kSpecialTokens = {"bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token"};

// A special token stands as a string, or as an object with its content.
void add_tokens(const Json& config, Json& variables) {
  for (const char* name : kSpecialTokens) {
    const auto found = config.find(name);
    if (found == config.end()) continue;
    if (found->is_string()) variables[name] = *found;
    if (found->is_object() && found->contains("content") && (*found)["content"].is_string()) variables[name] = (*found)["content"];
  }
}

Json read_object(const std::string& path) {
  const os::FileBytes bytes = os::map_file(path);
  return parse_object(path, text_of(bytes.bytes));
}

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

[[noreturn]] void no_template(const std::string& path) {
  throw ValueError(fmt::format("{}: the model has no chat template\n  fix: use a model that was trained to chat, or write "
                               "the prompt out", path));
}

ChatTemplate of_gguf(const os::FileBytes& file) {
  const io::GgufHeader header = io::parse_gguf(file);
  const auto text = [&](const char* key) -> const std::string* {
    const auto found = header.metadata.find(key);
    return found == header.metadata.end() ? nullptr : found->second.get_if<std::string>();
  };
  const std::string* source = text("tokenizer.chat_template");
  if (source == nullptr) no_template(file.path);
  Json variables = Json::object();
  const auto tokens = header.metadata.find("tokenizer.ggml.tokens");
  for (const char* name : kSpecialTokens) {
    const std::string short_name(name, std::string_view(name).size() - 6);
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", short_name == "unk" ? "unknown" : short_name == "pad" ? "padding" : short_name);
    const auto id = header.metadata.find(key);
    if (id == header.metadata.end() || tokens == header.metadata.end()) continue;
    const auto* list = tokens->second.get_if<std::vector<std::string>>();
    const std::int64_t number = id->second.as_integer();
    if (list != nullptr && number >= 0 && static_cast<std::size_t>(number) < list->size()) {
      variables[name] = (*list)[static_cast<std::size_t>(number)];
    }
  }
  return ChatTemplate(*source, variables.dump(-1, ' ', false, Json::error_handler_t::replace));
}

ChatTemplate of_folder(const std::string& folder) {
  Json variables = Json::object();
  std::optional<std::string> source;
  for (const char* name : {"/special_tokens_map.json", "/tokenizer_config.json"}) {
    if (!exists(folder + name)) continue;
    const Json config = read_object(folder + name);
    add_tokens(config, variables);
    const auto found = config.find("chat_template");
    if (found == config.end()) continue;
    if (found->is_string()) source = found->get<std::string>();
    if (!found->is_array()) continue;
    for (const Json& entry : *found) {
      if (!entry.is_object() || entry.value("name", "") != "default") continue;
      if (entry.contains("template") && entry["template"].is_string()) source = entry["template"].get<std::string>();
    }
  }
  if (exists(folder + "/chat_template.jinja")) {
    const os::FileBytes bytes = os::map_file(folder + "/chat_template.jinja");
    source = std::string(text_of(bytes.bytes));
  }
  if (!source) no_template(folder);
  return ChatTemplate(*source, variables.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

struct ChatTemplate::Parts {
  jinja::Block block;
  Json variables;
};

ChatTemplate::ChatTemplate(std::string_view source, std::string_view variables)
    : parts_(std::make_unique<Parts>(Parts{jinja::parse(source), parse_object(kVariables, variables)})) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

ChatTemplate ChatTemplate::load(const std::string& path) {
  if (os::is_directory(path)) return of_folder(path);
  const os::FileBytes file = os::map_file(path);
  if (text_of(file.bytes).starts_with("GGUF")) return of_gguf(file);
  const std::size_t slash = path.rfind('/');
  return of_folder(slash == std::string::npos ? "." : path.substr(0, slash));
}

std::string ChatTemplate::apply(const std::vector<ChatMessage>& messages, const ChatTemplateOptions& options) const {
  Json variables;
  Json& written = variables["messages"] = Json::array();
  for (const ChatMessage& message : messages) {
    Json& one = written.emplace_back();
    one["role"] = message.role;
    one["content"] = message.content;
  }
  return apply_json(variables.dump(-1, ' ', false, Json::error_handler_t::replace), options);
}

std::string ChatTemplate::apply_json(std::string_view variables, const ChatTemplateOptions& options) const {
  Json all = parts_->variables;
  all["tools"] = nullptr;
  all["documents"] = nullptr;
  all["add_generation_prompt"] = options.generation_prompt;
  if (!options.variables.empty()) all.update(parse_object(kVariables, options.variables));
  all.update(parse_object(kVariables, variables));
  const Value converted = jinja::from_json(all);
  if (!options.now.empty()) {
    converted.dict()->set("strftime_now", jinja::Function{"strftime_now", [moment = moment_of(options.now)](jinja::Arguments a) {
                            return Value(formatted(moment, jinja::to_text(jinja::argument(a, 0, "format"), "strftime_now")));
                          }});
  }
  return jinja::render(parts_->block, *converted.dict());
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
