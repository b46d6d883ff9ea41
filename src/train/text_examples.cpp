#include <lockstep/train/text_examples.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "core/checked.h"
#include "core/os.h"
#include "io/json_fields.h"

namespace lockstep {
inline namespace v0 {
namespace train {
namespace {

constexpr std::int64_t kIgnored = -100;
constexpr std::int64_t kLengthStep = 32;

/// A part of a text, in bytes.
struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// Where, in tokens, the text's part before `bytes` ends: a token that reaches beyond is not of it.
std::size_t tokens_before(const text::Tokenizer& tokenizer, const std::string& whole, std::size_t bytes,
                          const std::vector<std::int64_t>& tokens, const text::EncodeOptions& options) {
  const std::vector<std::int64_t> start = tokenizer.encode(whole.substr(0, bytes), options);
  const auto differs = std::mismatch(tokens.begin(), tokens.end(), start.begin(), start.end());
  return static_cast<std::size_t>(differs.first - tokens.begin());
}

TextExample example_of(const text::Tokenizer& tokenizer, const std::string& whole, const std::vector<Span>& learned,
                       const text::EncodeOptions& options) {
  TextExample result{tokenizer.encode(whole, options), {}};
  result.learned.resize(result.tokens.size(), false);
  for (const Span& span : learned) {
    const auto place = [&](std::size_t bytes) {
      return bytes == whole.size() ? result.tokens.size()
                                   : tokens_before(tokenizer, whole, bytes, result.tokens, options);
    };
    const std::size_t end = place(span.end);
    for (std::size_t i = place(span.begin); i < end; ++i) result.learned[i] = true;
  }
  return result;
}

void add_end(const text::Tokenizer& tokenizer, TextExample& example) {
  const std::optional<std::int64_t> end = tokenizer.end_token();
  if (!end || (!example.tokens.empty() && example.tokens.back() == *end)) return;
  example.tokens.push_back(*end);
  example.learned.push_back(true);
}

/// Makes examples of lines.
class TextReader {
 public:
  TextReader(const text::Tokenizer& tokenizer, const text::ChatTemplate* chat, const TextExampleOptions& options)
      : tokenizer_(tokenizer), chat_(chat), options_(options) {}

  void add(const io::JsonFields& line) {
    if (line.has("messages")) {
      add_short(conversation(line));
    } else if (line.has("prompt")) {
      const std::string prompt = line.text("prompt");
      const std::string whole = prompt + line.text("completion");
      TextExample example = example_of(tokenizer_, whole, {{prompt.size(), whole.size()}}, {});
      add_end(tokenizer_, example);
      add_short(std::move(example));
    } else {
      TextExample example{tokenizer_.encode(line.text("text")), {}};
      example.learned.resize(example.tokens.size(), true);
      add_end(tokenizer_, example);
      add_pieces(example);
    }
  }
  TextExamples take() { return std::move(result_); }

 private:
  std::string apply(const nlohmann::json& variables, bool begins_answer) const {
    return chat_->apply_json(variables.dump(), {.generation_prompt = begins_answer});
  }

  TextExample conversation(const io::JsonFields& line) const {
    if (chat_ == nullptr) line.fail("messages", "cannot be written: the model has no chat template");
    const nlohmann::json& messages = line.array("messages");
    nlohmann::json variables = line.at_object();
    const std::string whole = apply(variables, false);
    std::vector<Span> answers;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const io::JsonFields message(messages[i], line.where() + ": messages");
      if (message.text("role") != "assistant") continue;
      variables["messages"] =
          std::vector<nlohmann::json>(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(i));
      const std::string before = apply(variables, true);
      variables["messages"].push_back(messages[i]);
      const std::string after = apply(variables, false);
      if (!after.starts_with(before) || !whole.starts_with(after)) {
        throw ValueError(
            fmt::format("{}: the chat template writes answer {} otherwise once the conversation goes on, or begins it "
                        "otherwise than "
                        "it asks for one\n  fix: conversations with one answer each, at their end, or lines of prompt "
                        "and completion",
                        line.where(), answers.size() + 1));
      }
      answers.push_back({before.size(), after.size()});
    }
    return example_of(tokenizer_, whole, answers, {.add_special_tokens = false});
  }

  std::size_t most() const { return static_cast<std::size_t>(options_.context) + 1; }

  void add_short(TextExample example) {
    const bool is_cut = example.tokens.size() > most();
    if (is_cut) {
      example.tokens.resize(most());
      example.learned.resize(most());
    }
    if (put(std::move(example)) && is_cut) ++result_.cut;
  }

  // Pieces share a token, which one foretells and the next one begins with.
  void add_pieces(const TextExample& whole) {
    const std::size_t step = most() - 1;
    for (std::size_t begin = 0; begin == 0 || begin + 1 < whole.tokens.size(); begin += step) {
      const auto first = static_cast<std::ptrdiff_t>(begin);
      const auto last = static_cast<std::ptrdiff_t>(std::min(begin + most(), whole.tokens.size()));
      put({{whole.tokens.begin() + first, whole.tokens.begin() + last},
           {whole.learned.begin() + first, whole.learned.begin() + last}});
    }
  }

  bool put(TextExample example) {
    // The first token has nothing before it, from which it could be foretold.
    const auto count =
        example.learned.empty() ? 0 : std::count(example.learned.begin() + 1, example.learned.end(), true);
    if (count == 0) {
      ++result_.dropped;
      return false;
    }
    result_.tokens += count;
    result_.examples.push_back(std::move(example));
    return true;
  }

  const text::Tokenizer& tokenizer_;
  const text::ChatTemplate* chat_;
  TextExampleOptions options_;
  TextExamples result_;
};

class TextDataset final : public data::Dataset {
 public:
  explicit TextDataset(std::vector<TextExample> examples) : examples_(std::move(examples)) {
    for (const TextExample& example : examples_) {
      longest_ = std::max(longest_, static_cast<std::int64_t>(example.tokens.size()) - 1);
    }
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(examples_.size()); }

  data::Batch fetch(const data::Request& request) const override {
    std::int64_t length = 1;
    for (const std::int64_t index : request.indices) {
      if (index < 0 || index >= size()) throw IndexError(fmt::format("text_dataset: there is no example {}", index));
      length = std::max(length, static_cast<std::int64_t>(at(index).tokens.size()) - 1);
    }
    length = std::min((length + kLengthStep - 1) / kLengthStep * kLengthStep, longest_);
    const auto width = static_cast<std::size_t>(length);
    std::vector<std::int64_t> input(request.indices.size() * width, 0);
    std::vector<std::int64_t> target(input.size(), kIgnored);
    for (std::size_t row = 0; row < request.indices.size(); ++row) {
      const TextExample& example = at(request.indices[row]);
      for (std::size_t i = 0; i + 1 < example.tokens.size(); ++i) {
        input[row * width + i] = example.tokens[i];
        if (example.learned[i + 1]) target[row * width + i] = example.tokens[i + 1];
      }
    }
    const Shape shape{static_cast<std::int64_t>(request.indices.size()), length};
    return {Tensor::from(input, shape, Device{}), Tensor::from(target, shape, Device{})};
  }

 private:
  const TextExample& at(std::int64_t index) const { return examples_[static_cast<std::size_t>(index)]; }

  std::vector<TextExample> examples_;
  std::int64_t longest_ = 1;
};

}  // namespace

TextExamples read_text_examples(const std::string& path, const text::Tokenizer& tokenizer,
                                const text::ChatTemplate* chat, const TextExampleOptions& options) {
  if (options.context < 1) throw ValueError(fmt::format("read_text_examples: a context of {}", options.context));
  const os::FileBytes file = os::map_file(path);
  std::string_view rest = text_of(file.bytes);
  TextReader reader(tokenizer, chat, options);
  for (std::int64_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}:{}", path, number);
    const nlohmann::json document = io::parse_json(where, line);
    if (!document.is_object()) throw FormatError(fmt::format("{}: is no JSON object", where));
    const io::JsonFields fields(document, where);
    if (!fields.has("text") && !fields.has("messages") && !fields.has("prompt")) {
      throw FormatError(
          fmt::format("{}: has neither \"text\" nor \"messages\" nor \"prompt\" and \"completion\"", where));
    }
    reader.add(fields);
  }
  TextExamples result = reader.take();
  if (result.examples.empty()) throw ValueError(fmt::format("{}: there is nothing to learn", path));
  return result;
}

data::DatasetPtr text_dataset(std::vector<TextExample> examples) {
  return std::make_shared<TextDataset>(std::move(examples));
}

Model text_model(const models::LanguageModel& model, nn::Module& trained) {
  return {trained, [&model](const Tensor& ids) { return model.forward(ids).transpose(1, 2); }};
}

}  // namespace train
}  // namespace v0
}  // namespace lockstep
