// `lockstep perplexity`: how well a language model foretells a text.
#include <cstdio>

#include <fmt/format.h>

#include <lockstep/models/perplexity.h>

#include "cli/devices.h"
#include "cli/fetch.h"
#include "cli/json.h"
#include "cli/language.h"
#include "cli/terminal.h"
#include "core/checked.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct PerplexityArguments {
  std::string model;
  std::string tokenizer;
  std::string file;
  std::string adapter;
  ProductOptions products;
  std::string device = "best";
  std::int64_t context = 512;
  std::int64_t chunks = 0;
  bool as_json = false;
};

ExitCode perplexity(const PerplexityArguments& arguments) {
  const CallScope call(CallSite("", 0));  // errors are about what was given, not about lines of this file
  const Device device = chosen_device(arguments.device);
  const os::FileBytes file = os::map_file(arguments.file);
  const std::string path = fetched_model(arguments.model);
  const text::Tokenizer tokenizer =
      text::Tokenizer::load(arguments.tokenizer.empty() ? path : fetched_tokenizer(arguments.tokenizer));
  const std::vector<std::int64_t> tokens = tokenizer.encode(text_of(file.bytes));
  models::PerplexityOptions options{.context = arguments.context, .chunks = arguments.chunks};
  // A token for the beginning is what the text's first token is, if an empty text has it too.
  const std::vector<std::int64_t> around = tokenizer.encode("");
  if (!around.empty() && around.front() != tokenizer.end_token()) options.first_token = around.front();
  const auto model = models::load_language_model(path, device, {.adapter = arguments.adapter});
  const NumericsScope numerics(arguments.products.chosen());
  const os::StopRequest stop("");
  std::optional<Progress> progress;
  const models::Perplexity result = models::perplexity(
      *model, tokens, options,
      [&](const models::Perplexity& so_far, std::int64_t chunks) {
        if (!progress) progress.emplace(static_cast<std::size_t>(chunks));
        progress->show(static_cast<std::size_t>(so_far.chunks));
        return stop.signal() == 0;
      },
      device);
  if (progress) progress->clear();
  const auto scored = static_cast<std::int64_t>(result.log_probabilities.size());
  const std::string hash = hex(Tensor::from(result.log_probabilities, {scored}).hash());
  if (arguments.as_json) {
    print_line(JsonObject()
                   .add("perplexity", json(result.value))
                   .add("error", json(result.error))
                   .add("tokens", json(tokens.size()))
                   .add("scored", json(scored))
                   .add("chunks", json(result.chunks))
                   .add("context", json(arguments.context))
                   .add("device", json(device.to_string()))
                   .add("hash", json(hash))
                   .text());
  } else {
    print_line(fmt::format("perplexity {:.4f} +/- {:.4f}, {} tokens in {} chunks of {}, {}", result.value, result.error,
                           scored, result.chunks, arguments.context, hash));
  }
  if (stop.signal() == 0) return kOk;
  fmt::print(stderr, "interrupted: this is the result so far\n");
  return kFailure;
}

}  // namespace

void add_perplexity(CommandLine& line) {
  Subcommand command = line.subcommand("perplexity", "How well a language model foretells a text");
  const auto arguments = std::make_shared<PerplexityArguments>();
  command
      .option("--model", arguments->model,
              "A folder with config.json and model.safetensors, or a GGUF file; hf:OWNER/NAME is downloaded once")
      .required();
  command.option("FILE", arguments->file, "The text, in UTF-8").required();
  command.option("--adapter", arguments->adapter,
                 "A LoRA adapter of the model: a folder (adapter_config.json) or a GGUF file");
  arguments->products.add_to(command);
  command.option("--tokenizer", arguments->tokenizer, "A tokenizer.json or GGUF file; absent: the model's own");
  command.option("--context", arguments->context, "Tokens of a chunk; those of its second half count")
      .show_default()
      .range(4, 1 << 20);
  command.option("--chunks", arguments->chunks, "At most so many; 0: all").show_default().not_negative();
  command.option("--device", arguments->device, "Where to compute: cpu, ref, ... or best").show_default();
  command.flag("--json", arguments->as_json, "One JSON object instead of text");
  command.footer(
      "Example: lockstep perplexity --model SmolLM2-135M-Instruct.Q4_1.gguf text.txt\n"
      "Chunks and what counts are llama-perplexity's. The hash, of all log-probabilities, is the same on every "
      "device.");
  command.runs([arguments] { return perplexity(*arguments); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
