// `lockstep generate`: continues a text with a language model, or answers it.
#include <cstdio>

#include <fmt/format.h>

#include <lockstep/text/chat_template.h>

#include "cli/answer.h"
#include "cli/devices.h"
#include "cli/fetch.h"
#include "cli/json.h"
#include "cli/ranks.h"
#include "cli/terminal.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct GenerateArguments {
  std::string model;
  std::string tokenizer;
  std::string prompt;
  std::string device = "best";
  AnswerOptions answer;
  bool chat = false;
  std::string system;
  std::string date;
  std::string variables;
  bool as_json = false;
  RankOptions ranks;
};

std::vector<std::int64_t> prompt_tokens(const GenerateArguments& options, const text::Tokenizer& tokenizer) {
  if (!options.chat) {
    if (!options.system.empty() || !options.date.empty() || !options.variables.empty()) {
      throw UsageError("--system, --date and --template-variables need --chat");
    }
    return tokenizer.encode(options.prompt);
  }
  std::vector<text::ChatMessage> messages;
  if (!options.system.empty()) messages.push_back({"system", options.system});
  messages.push_back({"user", options.prompt});
  const std::string text =
      text::ChatTemplate::load(options.model).apply(messages, {.now = options.date, .variables = options.variables});
  return tokenizer.encode(text, {.add_special_tokens = false});
}

ExitCode run_generate(GenerateArguments options, const std::vector<std::string>& words) {
  if (starts_ranks(options.ranks)) return run_ranks(options.ranks, words);
  const dist::Group group = joined_group(options.ranks);
  const bool is_first = group.rank() == 0;  // which alone prints
  const Device device = chosen_device(options.device, group.local_rank());
  options.answer.model.group = group;
  options.model = fetched_model(options.model);
  Answerer answerer(options.model, options.tokenizer.empty() ? options.model : fetched_tokenizer(options.tokenizer),
                    options.answer, device);
  const Answer result = answerer.answer(prompt_tokens(options, answerer.tokenizer()), is_first && !options.as_json);
  if (!is_first) return kOk;
  if (options.as_json) {
    JsonArray numbers;
    JsonArray probabilities;
    for (const models::SampledToken& token : result.tokens) {
      numbers.add(json(token.token));
      probabilities.add(json(token.log_probability));
    }
    print_line(JsonObject()
                   .add("text", json(result.text))
                   .add("tokens", numbers.text())
                   .add("logprobs", probabilities.text())
                   .add("tokens_hash", json(result.hash()))
                   .text());
  } else {
    print_line("");
    std::fflush(stdout);  // before the numbers, where both go to one pipe
    fmt::print(stderr, "{}\n", result.summary());
  }
  return kOk;
}

}  // namespace

void add_generate(CommandLine& line) {
  Subcommand command = line.subcommand("generate", "Continue a text with a language model");
  const auto options = std::make_shared<GenerateArguments>();
  command
      .option("--model", options->model,
              "A folder with config.json and model.safetensors, or a GGUF file; "
              "hf:OWNER/NAME or hf:OWNER/NAME/FILE.gguf is downloaded once")
      .required();
  command.option("PROMPT", options->prompt, "The text to continue").required();
  command.option("--tokenizer", options->tokenizer, "A tokenizer.json or GGUF file; absent: the model's own");
  command.flag("--chat", options->chat, "The prompt is a message: written as the model's chat template asks for");
  command.option("--system", options->system, "With --chat: the message before, which says how to answer");
  command.option("--date", options->date,
                 "With --chat: for templates that ask for it, 2026-11-23; absent: the template's own");
  command.option("--template-variables", options->variables,
                 "With --chat: a JSON object of what else the template reads, {\"enable_thinking\":false}");
  options->answer.add_to(command);
  command.option("--device", options->device, "Where to compute: cpu, ref, ... or best").show_default();
  add_rank_count(command, options->ranks,
                 "Divide the model among so many processes of this machine; no result depends on it");
  command.flag("--json", options->as_json, "One JSON object instead of text");
  command.footer(
      "Examples:\n"
      "  lockstep generate --model stories260K-f32.gguf \"Once upon a time\"\n"
      "  lockstep generate --model qwen3 --chat --temperature 0.8 --top-p 0.95 --seed 1 \"Why is the sky blue?\"\n"
      "The same prompt and seed give the same tokens on every device.");
  command.runs([options, words = command.words()] { return as_rank([&] { return run_generate(*options, *words); }); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
