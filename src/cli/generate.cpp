// `lockstep generate`: continues a text with a language model.
#include <chrono>
#include <cstdio>

#include <fmt/format.h>

#include <lockstep/models/generate.h>

#include "cli/devices.h"
#include "cli/fetch.h"
#include "cli/json.h"
#include "cli/language.h"
#include "cli/terminal.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct Options {
  std::string model;
  std::string tokenizer;
  std::string prompt;
  std::string device = "best";
  std::vector<std::string> stop;
  std::int64_t max_tokens = 128;
  std::optional<double> temperature;
  std::int64_t top_k = 0;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::uint64_t seed = 0;
  bool as_json = false;
};

// Where the first of the texts begins.
std::size_t find_stop(const std::string& text, const std::vector<std::string>& stops) {
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops) {
    if (!stop.empty()) first = std::min(first, text.find(stop));
  }
  return first;
}

// The longest end of the text that could be the beginning of a stop text: it is shown when it is known not to be.
std::size_t possible_stop(const std::string& text, const std::vector<std::string>& stops) {
  std::size_t longest = 0;
  for (const std::string& stop : stops) {
    for (std::size_t size = std::min(stop.size(), text.size()); size > longest; --size) {
      if (text.ends_with(std::string_view(stop).substr(0, size))) longest = size;
    }
  }
  return longest;
}

/// Shows text as it comes, up to a stop text.
class Output {
 public:
  Output(const std::vector<std::string>& stops, bool show) : stops_(&stops), show_(show) {}

  /// Returns whether to go on.
  bool add(const std::string& more) {
    text_ += more;
    const std::size_t stop = find_stop(text_, *stops_);
    if (stop != std::string::npos) text_.resize(stop);
    show(stop != std::string::npos ? text_.size() : text_.size() - possible_stop(text_, *stops_));
    return stop == std::string::npos;
  }
  void finish() { show(text_.size()); }
  const std::string& text() const { return text_; }

 private:
  void show(std::size_t end) {
    if (end <= shown_) return;
    if (show_) fmt::print("{}", printable_lines(text_.substr(shown_, end - shown_)));
    std::fflush(stdout);
    shown_ = end;
  }

  const std::vector<std::string>* stops_;
  bool show_;
  std::string text_;
  std::size_t shown_ = 0;
};

ExitCode run(Options options) {
  const Device device = chosen_device(options.device);
  options.model = fetched_model(options.model);
  const text::Tokenizer tokenizer =
      text::Tokenizer::load(options.tokenizer.empty() ? options.model : fetched_tokenizer(options.tokenizer));
  const auto model = models::load_language_model(options.model, device);
  const std::vector<std::int64_t> prompt = tokenizer.encode(options.prompt);
  models::GenerateOptions generation{.sampling = {.temperature = options.temperature.value_or(0),
                                                  .top_k = options.top_k,
                                                  .top_p = options.top_p.value_or(1),
                                                  .min_p = options.min_p.value_or(0),
                                                  .seed = options.seed},
                                     .max_tokens = options.max_tokens};
  if (tokenizer.end_token()) generation.end_tokens.push_back(*tokenizer.end_token());

  TextStream stream(tokenizer, prompt);
  Output output(options.stop, !options.as_json);
  bool stopped = false;
  const auto start = std::chrono::steady_clock::now();
  const std::vector<models::SampledToken> tokens = models::generate(
      *model, prompt, generation,
      [&](const models::SampledToken& token) {
        stopped = !output.add(stream.add(token.token));
        return !stopped;
      },
      device);
  if (!stopped) output.add(stream.finish());
  output.finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  std::vector<std::int64_t> ids;
  for (const models::SampledToken& token : tokens) ids.push_back(token.token);
  const auto count = static_cast<std::int64_t>(ids.size());
  const std::string hash = hex(Tensor::from(ids, {count}).hash());
  if (options.as_json) {
    JsonArray numbers;
    JsonArray probabilities;
    for (const models::SampledToken& token : tokens) {
      numbers.add(json(token.token));
      probabilities.add(json(token.log_probability));
    }
    print_line(JsonObject()
                   .add("text", json(output.text()))
                   .add("tokens", numbers.text())
                   .add("logprobs", probabilities.text())
                   .add("tokens_hash", json(hash))
                   .text());
  } else {
    print_line("");
    fmt::print(stderr, "{} tokens, {:.1f} a second, {}, {}\n", count, static_cast<double>(count) / seconds,
               size_text(os::resident_bytes()), hash);
  }
  return kOk;
}

}  // namespace

void add_generate(CommandLine& line) {
  Subcommand command = line.subcommand("generate", "Continue a text with a language model");
  const auto options = std::make_shared<Options>();
  command
      .option("--model", options->model,
              "A folder with config.json and model.safetensors, or a GGUF file; "
              "hf:OWNER/NAME or hf:OWNER/NAME/FILE.gguf is downloaded once")
      .required();
  command.option("PROMPT", options->prompt, "The text to continue").required();
  command.option("--tokenizer", options->tokenizer, "A tokenizer.json or GGUF file; absent: the model's own");
  command.option("--max-tokens", options->max_tokens, "At most so many tokens").positive().show_default();
  command.option("--temperature", options->temperature, "0 (the default) always takes the most probable token");
  command.option("--top-k", options->top_k, "Draw from the K most probable tokens; 0: from all").not_negative();
  command.option("--top-p", options->top_p, "Draw from the fewest tokens that have this probability together");
  command.option("--min-p", options->min_p, "Leave out tokens below this share of the most probable one");
  command.option("--seed", options->seed, "Of what is drawn").show_default();
  command.option("--stop", options->stop, "Ends before this text; may be repeated").one_value_each();
  command.option("--device", options->device, "Where to compute: cpu, ref, ... or best").show_default();
  command.flag("--json", options->as_json, "One JSON object instead of text");
  command.footer(
      "Examples:\n"
      "  lockstep generate --model stories260K-f32.gguf \"Once upon a time\"\n"
      "  lockstep generate --model qwen3 --temperature 0.8 --top-p 0.95 --seed 1 \"Why is the sky blue?\"\n"
      "The same prompt and seed give the same tokens on every device.");
  command.runs([options] { return run(*options); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
