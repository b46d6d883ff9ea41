// `lockstep tokenize`: texts to tokens, or back.
#include <fmt/format.h>

#include "cli/fetch.h"
#include "cli/json.h"
#include "cli/language.h"
#include "cli/terminal.h"
#include "io/json_fields.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct TokenizeArguments {
  std::string model;
  std::string text;
  std::string texts;
  std::string decode;
  bool plain = false;
  bool as_json = false;
};

std::string json_of_tokens(const std::vector<std::int64_t>& tokens) {
  JsonArray array;
  for (const std::int64_t token : tokens) array.add(json(token));
  return array.text();
}

bool is_pair(const nlohmann::json& item) {
  return item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string();
}

// A line for each text of a file, or pair of texts.
void tokenize_file(const text::Tokenizer& tokenizer, const TokenizeArguments& options) {
  const nlohmann::json texts = io::parse_json(os::map_file(options.texts));
  if (!texts.is_array()) throw UsageError(fmt::format("{} is no JSON array of texts", options.texts));
  for (const auto& item : texts) {
    if (is_pair(item) && !options.plain) {
      print_line(json_of_tokens(tokenizer.encode_pair(item[0].get<std::string>(), item[1].get<std::string>()).ids));
      continue;
    }
    if (!item.is_string()) throw UsageError(fmt::format("{} holds something else than texts", options.texts));
    print_line(json_of_tokens(tokenizer.encode(item.get<std::string>(), {.add_special_tokens = !options.plain})));
  }
}

ExitCode tokenize(const TokenizeArguments& options) {
  const int given = !options.text.empty() + !options.texts.empty() + !options.decode.empty();
  if (given != 1) throw UsageError("tokenize needs a TEXT, --texts or --decode");
  const text::Tokenizer tokenizer = text::Tokenizer::load(fetched_tokenizer(options.model));
  if (!options.texts.empty()) {
    tokenize_file(tokenizer, options);
    return kOk;
  }
  if (!options.decode.empty()) {
    const std::string text = tokenizer.decode(parse_tokens(options.decode));
    print_line(options.as_json ? JsonObject().add("text", json(text)).text() : printable_lines(text));
    return kOk;
  }
  const std::vector<std::int64_t> tokens = tokenizer.encode(options.text, {.add_special_tokens = !options.plain});
  if (options.as_json) {
    JsonArray pieces;
    for (const std::int64_t token : tokens) pieces.add(json(tokenizer.token(token).value_or("")));
    print_line(JsonObject().add("tokens", json_of_tokens(tokens)).add("pieces", pieces.text()).text());
    return kOk;
  }
  Table table;
  for (const std::int64_t token : tokens) {
    table.add({{fmt::format("{}", token), nullptr, true}, {printable(tokenizer.token(token).value_or(""))}});
  }
  table.print(Style(), "  ");
  print_line(fmt::format("{} tokens", tokens.size()));
  return kOk;
}

}  // namespace

void add_tokenize(CommandLine& line) {
  Subcommand command = line.subcommand("tokenize", "The tokens of a text, or the text of tokens");
  const auto options = std::make_shared<TokenizeArguments>();
  command.option("--model", options->model, "A tokenizer.json, a folder that holds one, a GGUF file, or hf:OWNER/NAME")
      .required();
  command.option("TEXT", options->text, "The text");
  command.option(
      "--texts", options->texts,
      "A JSON file with an array of texts, or of arrays of two, which are read as one: prints a line of ids for each");
  command.option("--decode", options->decode, "Ids whose text to print: 1,2,3");
  command.flag("--plain", options->plain, "Without the special tokens that the model expects around a text");
  command.flag("--json", options->as_json, "One JSON object instead of text");
  command.footer(
      "Examples:\n"
      "  lockstep tokenize --model qwen3.gguf \"Why is the sky blue?\"\n"
      "  lockstep tokenize --model tokenizer.json --decode 1,2,3");
  command.runs([options] { return tokenize(*options); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
