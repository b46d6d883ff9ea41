// `lockstep logits`: what a model says about every position, to compare it with other programs.
#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/io/numpy.h>
#include <lockstep/ops.h>

#include "cli/devices.h"
#include "cli/fetch.h"
#include "cli/json.h"
#include "cli/language.h"
#include "cli/ranks.h"
#include "cli/terminal.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct LogitsArguments {
  std::string model;
  ModelOptions load;
  ProductOptions products;
  std::string tokens;
  std::string tokens_file;
  std::string decoder_tokens;
  std::string features;
  std::string cache = "none";
  std::string out;
  std::string device = "best";
  bool as_json = false;
  RankOptions ranks;
};

// What is wrong with the line is said before a model is loaded.
void check_logits_usage(const LogitsArguments& options) {
  const int inputs = !options.tokens.empty() + !options.tokens_file.empty() + !options.features.empty();
  if (inputs != 1) throw UsageError("logits needs either --tokens or --tokens-file, or --features");
  if (!options.features.empty() && options.decoder_tokens.empty()) {
    throw UsageError("--features needs --decoder-tokens");
  }
  if (options.cache == "none" && options.load.load().cache != models::CacheType::f32) {
    throw UsageError("--cache-type needs --cache: without one nothing is remembered");
  }
  if (!options.tokens.empty()) parse_tokens(options.tokens);
  if (!options.decoder_tokens.empty()) parse_tokens(options.decoder_tokens);
}

// [N, L] of i64.
Tensor read_ids(const LogitsArguments& options, Device device) {
  if (!options.tokens.empty()) {
    const std::vector<std::int64_t> tokens = parse_tokens(options.tokens);
    return Tensor::from(tokens, {1, static_cast<std::int64_t>(tokens.size())}, device);
  }
  const Tensor array = io::load_npy(options.tokens_file);
  if (!is_integer(array.dtype()) || array.rank() < 1 || array.rank() > 2 || array.numel() == 0) {
    throw ValueError(fmt::format("{}: tokens are integers [L] or [N, L], not {} {}", options.tokens_file,
                                 name_of(array.dtype()), array.shape().to_string()));
  }
  return (array.rank() == 1 ? array.unsqueeze(0) : array).to(DType::i64).to(device);
}

// More positions than the model was made for have logits, and they mean nothing.
void check_length(const models::LanguageModel& model, const Tensor& ids) {
  const std::int64_t length = ids.shape().back();
  if (model.context() <= 0 || length <= model.context()) return;
  throw ValueError(fmt::format("logits: {} tokens, but the model was made for {} positions\n  fix: give fewer tokens",
                               length, model.context()));
}

// "none": 0, all at once without a cache; "step": 1; "chunk:N": N.
std::int64_t read_chunk(const std::string& text) {
  if (text == "none") return 0;
  if (text == "step") return 1;
  constexpr std::string_view kChunk = "chunk:";
  std::int64_t size = 0;
  const char* end = text.data() + text.size();
  const bool good = text.starts_with(kChunk) && text.size() > kChunk.size() &&
                    std::from_chars(text.data() + kChunk.size(), end, size).ptr == end && size > 0;
  if (!good) throw UsageError(fmt::format("--cache is none, step or chunk:N, not \"{}\"", text));
  return size;
}

ExitCode logits(LogitsArguments options, const std::vector<std::string>& words) {
  const std::int64_t chunk = read_chunk(options.cache);
  check_logits_usage(options);
  if (starts_ranks(options.ranks)) return run_ranks(options.ranks, words);
  const dist::Group group = joined_group(options.ranks);
  const Device device = chosen_device(options.device, group.local_rank());
  options.load.group = group;
  const auto model = options.load.load_model(fetched_model(options.model), device);
  const NoGrad no_grad;
  const NumericsScope numerics(options.products.chosen());
  Tensor result;
  if (!options.decoder_tokens.empty()) {
    if (chunk != 0) throw UsageError("encoder-decoders have no --cache yet");
    const std::vector<std::int64_t> tokens = parse_tokens(options.decoder_tokens);
    const Tensor decoder = Tensor::from(tokens, {1, static_cast<std::int64_t>(tokens.size())}, device);
    result = model->forward_pair(
        options.features.empty() ? read_ids(options, device) : io::load_npy(options.features).to(device), decoder);
  } else if (const Tensor ids = read_ids(options, device); chunk == 0) {
    check_length(*model, ids);
    result = model->forward(ids);
  } else {
    check_length(*model, ids);
    const auto cache = model->make_cache();
    std::vector<Tensor> parts;
    for (const Tensor& part : ids.split(chunk, 1)) parts.push_back(model->forward(part, cache.get()).eval());
    result = cat(parts, 1);
  }
  if (group.rank() != 0) {
    result.eval();  // what the others get of this rank
    return kOk;
  }
  const char* kind = model->encoder() ? "hidden" : "logits";
  if (!options.out.empty()) io::save_npy(options.out, result);
  const std::string hash = hex(result.hash());
  if (options.as_json) {
    JsonArray shape;
    for (const std::int64_t size : result.shape()) shape.add(json(size));
    print_line(JsonObject()
                   .add("family", json(model->family()))
                   .add("kind", json(kind))
                   .add("shape", shape.text())
                   .add("device", json(device.to_string()))
                   .add("cache", json(options.cache))
                   .add("hash", json(hash))
                   .text());
  } else {
    print_line(fmt::format("{} {} f32 {}  {}", model->family(), kind, result.shape().to_string(), hash));
  }
  return kOk;
}

}  // namespace

void add_logits(CommandLine& line) {
  Subcommand command = line.subcommand("logits", "The logits of a language model for every position, and their hash");
  const auto options = std::make_shared<LogitsArguments>();
  command
      .option("--model", options->model,
              "A folder with config.json and model.safetensors, or a GGUF file; hf:OWNER/NAME is downloaded once")
      .required();
  options->load.add_to(command);
  options->products.add_to(command);
  command.option("--tokens", options->tokens, "Ids of one row: 1,2,3");
  command.option("--tokens-file", options->tokens_file, "A .npy file of integers [L] or [N, L]");
  command.option("--decoder-tokens", options->decoder_tokens, "Ids for the decoder of an encoder-decoder");
  command.option("--features", options->features, "A .npy file with the input of an audio encoder");
  command.option("--cache", options->cache, "none, step or chunk:N: how many tokens at a time").show_default();
  command.option("--out", options->out, "Writes the f32 logits (of encoders: the hidden states) to a .npy file");
  command.option("--device", options->device, "Where to compute: cpu, ref, ... or best").show_default();
  add_rank_count(command, options->ranks,
                 "Divide the model among so many processes of this machine; no result depends on it");
  command.flag("--json", options->as_json, "One JSON object instead of text");
  command.footer(
      "Examples:\n"
      "  lockstep logits --model qwen3 --tokens 1,2,3 --json\n"
      "  lockstep logits --model model.gguf --tokens-file ids.npy --cache step --out logits.npy\n"
      "The hash is the same on every device and with every --cache (of one --cache-type).");
  command.runs([options, words = command.words()] { return as_rank([&] { return logits(*options, *words); }); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
