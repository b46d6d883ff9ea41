#include "text/end_tokens.h"

#include <filesystem>
#include <utility>

namespace lockstep {
inline namespace v0 {
namespace text {
namespace {

struct KnownEnd {
  const char* name;
  bool special;  ///< Only as a special token: other vocabularies have such a text, say, as a tag of HTML.
};
constexpr KnownEnd kKnownEnds[] = {
    {"</s>", true},
    {"<|im_end|>", false},
    {"<|eot_id|>", false},
    {"<end_of_turn>", false},
    {"<|endoftext|>", false},
    {"<eos>", true},
    {"<|end_of_text|>", false},
    {"<|eom_id|>", false},
    {"<|end|>", false},
    {"<|return|>", false},
    {"<|call|>", false},
    {"<|END_OF_TURN_TOKEN|>", false},
    {"<end_of_utterance>", false},
    {"<｜end▁of▁sentence｜>", false},
    {"<|eot|>", false},
};

bool is_special(const Tokenizer::Parts& parts, std::int64_t id) {
  return static_cast<std::size_t>(id) < parts.special.size() && parts.special[static_cast<std::size_t>(id)];
}

// Of the object in a file; nothing where there is no such file.
nlohmann::json object_in(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return nlohmann::json::object();
  return io::parse_json(os::map_file(path));
}

// A number, or a list of some.
void add_numbers(const io::JsonFields& fields, Tokenizer::Parts& parts) {
  const nlohmann::json* given = fields.find("eos_token_id");
  if (given == nullptr) return;
  for (const nlohmann::json& id : given->is_array() ? *given : nlohmann::json::array({*given})) {
    if (!id.is_number_integer()) fields.fail("eos_token_id", "is no number of a token, nor a list of some");
    const auto number = id.get<std::int64_t>();
    if (parts.vocabulary.text(number) != nullptr) parts.ends.push_back(number);
  }
}

}  // namespace

void add_known_ends(Tokenizer::Parts& parts) {
  // gpt-oss ends messages within an answer by <|end|>, the answer by <|return|>.
  const bool has_return = parts.vocabulary.find("<|return|>").has_value();
  for (const auto& [name, special] : kKnownEnds) {
    const auto id = parts.vocabulary.find(name);
    if (!id || (special && !is_special(parts, *id)) || (has_return && name == std::string_view("<|end|>"))) continue;
    parts.ends.push_back(*id);
  }
  if (!parts.end && !parts.ends.empty()) parts.end = parts.ends.front();
}

void read_ends(const std::string& folder, Tokenizer::Parts& parts) {
  std::optional<std::int64_t> end;
  const std::string path = folder + "/tokenizer_config.json";
  const nlohmann::json file = object_in(path);
  if (const nlohmann::json* token = io::JsonFields(file, path).find("eos_token")) {
    const nlohmann::json& text = token->is_object() ? token->value("content", nlohmann::json()) : *token;
    if (text.is_string()) end = parts.vocabulary.find(text.get<std::string>());
  }
  const auto known = std::exchange(parts.ends, {});
  for (const char* name : {"/generation_config.json", "/config.json"}) {
    const nlohmann::json object = object_in(folder + name);
    if (parts.ends.empty()) add_numbers(io::JsonFields(object, folder + name), parts);
  }
  if (!end && !parts.ends.empty()) end = parts.ends.front();
  if (end) {
    parts.end = end;
  } else {
    parts.ends = known;
  }
}

}  // namespace text
}  // namespace v0
}  // namespace lockstep
