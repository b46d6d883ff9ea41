// `lockstep finetune`: a language model, trained further on texts or conversations, whole or by an adapter; and
// `lockstep merge`, which adds an adapter to its model.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/models/lora.h>
#include <lockstep/optim/adam.h>
#include <lockstep/random.h>
#include <lockstep/threads.h>
#include <lockstep/train.h>

#include "cli/command_line.h"
#include "cli/devices.h"
#include "cli/fetch.h"
#include "cli/json.h"
#include "cli/run_begin.h"
#include "cli/terminal.h"
#include "cli/train_setup.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

constexpr std::int64_t kUsualContext = 512;

struct FinetuneOptions {
  std::string model;
  std::string tokenizer;
  std::string data;
  std::string test;
  std::string out = "lockstep-finetune";
  std::string device = "best";
  std::string schedule = "cosine";
  std::int64_t rank = 0;
  std::optional<double> alpha;
  std::vector<std::string> targets;
  std::optional<double> lr;
  std::optional<double> weight_decay;
  std::optional<double> clip_norm;
  std::int64_t batch = 4;
  std::int64_t context = 0;
  std::int64_t epochs = 1;
  std::int64_t steps = 0;
  std::int64_t checkpoint_every = 0;
  std::uint64_t seed = 0;
  int threads = 0;
  std::string resume;
  bool merge = false;
  bool overwrite = false;
  bool as_json = false;
};

// Where the model is written: a folder beside the checkpoints, or a file.
std::string model_path(const std::string& source, const std::string& out) {
  return os::is_directory(source) ? out : (std::filesystem::path(out) / "model.gguf").string();
}

std::string merge_into(const std::string& model, const std::string& adapter, const std::string& out) {
  const auto base = models::load_language_model(model, Device{}, {.packed = false});
  models::LoraAdapter::load(*base, adapter)->merge();
  models::save_language_model(*base, model, out);
  return hex(nn::state_hash(base->state_dict()));
}

/// The texts of a run.
struct Texts {
  train::TextExamples examples;
  std::optional<train::TextExamples> test;
};

Texts read_texts(const FinetuneOptions& options, const text::Tokenizer& tokenizer, std::int64_t context) {
  std::optional<text::ChatTemplate> chat;
  try {
    chat.emplace(text::ChatTemplate::load(options.model));
  } catch (const ValueError&) {
    // The model has none; lines with messages say so.
  }
  const auto read = [&](const std::string& path) {
    return train::read_text_examples(path, tokenizer, chat ? &*chat : nullptr, {.context = context});
  };
  Texts result{read(options.data), std::nullopt};
  if (!options.test.empty()) result.test = read(options.test);
  return result;
}

void check_finetune_usage(const FinetuneOptions& options) {
  if (options.rank > 0) return;
  if (options.alpha || !options.targets.empty()) throw UsageError("--lora-alpha and --lora-targets need --lora RANK");
  if (options.merge) throw UsageError("--merge needs --lora RANK: without it the model itself is trained");
}

ExitCode finetune(FinetuneOptions options, const std::vector<std::string>& words) {
  check_finetune_usage(options);
  const bool lora = options.rank > 0;
  const Device device = chosen_device(options.device);
  const std::string source = options.model;
  options.model = fetched_model(options.model);
  const double lr = options.lr.value_or(lora ? 2e-4 : 2e-5);
  const double alpha = options.alpha.value_or(2 * static_cast<double>(options.rank));
  const double weight_decay = options.weight_decay.value_or(0);
  const double clip_norm = options.clip_norm.value_or(1);
  if (options.threads > 0) set_num_threads(options.threads);

  manual_seed(options.seed);
  const auto model = models::load_language_model(options.model, device, {.packed = lora});
  if (model->encoder())
    throw ValueError(fmt::format("finetune: {} is an encoder, which foretells no text", model->family()));
  std::int64_t context = options.context;
  if (context == 0) context = model->context() > 0 ? std::min(model->context(), kUsualContext) : kUsualContext;
  if (model->context() > 0 && context > model->context()) {
    throw ValueError(fmt::format("--context: the model was made for {} positions, not {}", model->context(), context));
  }
  RunOptions now{{"--model", source},
                 {"--data", options.data},
                 {"--lora", fmt::to_string(options.rank)},
                 {"--lora-alpha", lora ? fmt::to_string(alpha) : "none"},
                 {"--lora-targets", fmt::to_string(fmt::join(options.targets, ","))},
                 {"--epochs", fmt::to_string(options.epochs), true},
                 {"--steps", fmt::to_string(options.steps), true},
                 {"--batch-size", fmt::to_string(options.batch)},
                 {"--context", fmt::to_string(context)},
                 {"--lr", fmt::to_string(lr)},
                 {"--weight-decay", fmt::to_string(weight_decay)},
                 {"--clip-norm", fmt::to_string(clip_norm)},
                 {"--schedule", options.schedule},
                 {"--seed", fmt::to_string(options.seed)}};
  const RunFolder folder(options.out);
  const BeginOptions begin{options.out, options.resume, options.overwrite, options.as_json};
  const std::optional<train::Checkpoint> from = begin_or_continue(begin, folder, now);

  const text::Tokenizer tokenizer =
      text::Tokenizer::load(options.tokenizer.empty() ? options.model : fetched_tokenizer(options.tokenizer));
  const Texts texts = read_texts(options, tokenizer, context);
  std::optional<models::LoraAdapter> adapter;
  if (lora) {
    adapter.emplace(*model, models::LoraOptions{.rank = options.rank, .alpha = alpha, .targets = options.targets});
  }
  nn::Module& trained = adapter ? static_cast<nn::Module&>(*adapter) : *model;
  optim::AdamW optimizer(trained.parameters(), {.lr = lr, .weight_decay = weight_decay});
  const auto examples = static_cast<std::int64_t>(texts.examples.examples.size());
  const std::int64_t batch = std::min(options.batch, examples);
  data::DataLoader loader(train::text_dataset(texts.examples.examples),
                          {.batch_size = batch, .shuffle = true, .seed = options.seed, .device = device});
  std::optional<data::DataLoader> test;
  if (texts.test)
    test.emplace(train::text_dataset(texts.test->examples),
                 data::DataLoaderOptions{.batch_size = batch, .device = device});
  const std::int64_t all_steps = options.epochs * loader.batches();
  const std::int64_t steps = options.steps > 0 ? std::min(options.steps, all_steps) : all_steps;
  if (from) check_length(folder, *from, now, loader.batches(), steps);
  models::Recipe recipe;
  recipe.lr = lr;
  recipe.schedule = options.schedule;
  const std::unique_ptr<optim::Schedule> schedule = make_schedule(recipe, optimizer, steps);

  const std::int64_t keep = from ? from->step : 0;
  std::vector<std::unique_ptr<train::Log>> logs;
  logs.push_back(train::csv_log(folder.file("log.csv"), keep));
  logs.push_back(train::json_log(folder.file("log.jsonl"), keep));
  logs.push_back(train::tensorboard_log(folder.file("tensorboard"), keep));
  std::vector<train::Log*> log_list;
  for (const auto& log : logs) log_list.push_back(log.get());
  const Style style;
  if (!options.as_json) {
    print_line(fmt::format("{} on {}: {} of {} parameters, {} examples with {} tokens to learn, {} steps of {}, {}",
                           style.bold(model->family()), printable(options.data), trained.parameter_count(),
                           model->parameter_count(), examples, texts.examples.tokens, steps, batch,
                           device.to_string()));
    if (texts.examples.cut + texts.examples.dropped > 0) {
      print_line(fmt::format("{} conversations were cut to {} tokens, {} lines have nothing to learn",
                             texts.examples.cut, context, texts.examples.dropped));
    }
    if (keep > 0) print_line(fmt::format("Continued behind step {}", keep));
    std::fflush(stdout);
  }
  std::optional<os::StopRequest> stop(kStopNotice);
  train::FitOptions fit{.epochs = options.epochs,
                        .max_steps = options.steps,
                        .schedule = schedule.get(),
                        .test = test ? &*test : nullptr,
                        .checkpoints = folder.checkpoints(),
                        .checkpoint_every = options.checkpoint_every,
                        .resume = from.has_value(),
                        .run = to_text(now),
                        .logs = log_list,
                        .progress = !options.as_json,
                        .stop = [&] { return stop->signal() != 0; }};
  if (clip_norm > 0) fit.clip_norm = clip_norm;
  const train::FitResult result = train::fit(train::text_model(*model, trained), optimizer, loader, fit);
  const int signal = stop->signal();
  stop.reset();
  if (result.stopped) return report_stop(begin, result, steps, signal, continuing(words));

  const std::string hash = hex(nn::state_hash(trained.state_dict()));
  std::string written = options.out;
  if (adapter) {
    adapter->save(options.out, source);
    if (options.merge) merge_into(options.model, options.out, written = model_path(options.model, options.out));
  } else {
    models::save_language_model(*model, options.model, written = model_path(options.model, options.out));
  }
  double loss = train::Record::kNone;
  for (const train::Record& record : train::read_json_log(folder.file("log.jsonl"), result.steps)) {
    if (record.split != "test") loss = record.loss;
  }
  const std::string use = adapter && !options.merge
                              ? fmt::format("lockstep generate --model {} --adapter {}", source, options.out)
                              : fmt::format("lockstep generate --model {}", written);
  if (options.as_json) {
    print_line(JsonObject()
                   .add("model", json(source))
                   .add("data", json(options.data))
                   .add("device", json(device.to_string()))
                   .add("lora", json(options.rank))
                   .add("parameters", json(trained.parameter_count()))
                   .add("examples", json(examples))
                   .add("tokens", json(texts.examples.tokens))
                   .add("cut", json(texts.examples.cut))
                   .add("dropped", json(texts.examples.dropped))
                   .add("steps", json(result.steps))
                   .add("resumed_at", json(result.resumed_at))
                   .add("loss", json(loss))
                   .add("test_loss", json(result.test.loss))
                   .add("out", json(written))
                   .add("seconds", json(result.seconds))
                   .add("weights_hash", json(hash))
                   .text());
    return kOk;
  }
  print_line(fmt::format("loss {:.4f} at the end, {} {}, {:.1f} s", loss, adapter ? "adapter" : "weights", hash,
                         result.seconds));
  print_line(fmt::format("To use it: {}", printable(use)));
  return kOk;
}

struct MergeOptions {
  std::string model;
  std::string adapter;
  std::string out;
  bool as_json = false;
};

ExitCode merge(const MergeOptions& options) {
  const std::string hash = merge_into(fetched_model(options.model), options.adapter, options.out);
  if (options.as_json) {
    print_line(JsonObject().add("out", json(options.out)).add("weights_hash", json(hash)).text());
  } else {
    print_line(fmt::format("{}: weights {}", printable(options.out), hash));
  }
  return kOk;
}

}  // namespace

void add_finetune(CommandLine& line) {
  Subcommand command = line.subcommand("finetune", "Train a language model further on texts or conversations");
  const auto options = std::make_shared<FinetuneOptions>();
  command
      .option("--model", options->model,
              "A folder with config.json and model.safetensors, or a GGUF file; hf:OWNER/NAME is downloaded once")
      .required();
  command
      .option("--data", options->data,
              "A file with a JSON object on each line: {\"text\":...}, {\"prompt\":...,\"completion\":...} or "
              "{\"messages\":[...]}; of the last two the answers alone are learned")
      .required();
  command.option("--test", options->test, "Such a file whose loss is measured after each epoch");
  command.option("--tokenizer", options->tokenizer, "A tokenizer.json or GGUF file; absent: the model's own");
  command.option("--out", options->out, "Folder for the result, logs and checkpoints").show_default();
  command.option("--lora", options->rank, "Train an adapter of this rank (LoRA), not the model; it may be packed")
      .range(1, 65536);
  command
      .option("--lora-alpha", options->alpha,
              "Its results are multiplied by this over the rank (default: twice the rank)")
      .positive();
  command
      .option("--lora-targets", options->targets,
              "A projection to adapt, e.g. q_proj; may be repeated (default: all but the head)")
      .one_value_each();
  command.flag("--merge", options->merge, "With --lora: write the model with the adapter added, too");
  command.option("--epochs", options->epochs, "Passes over the data").range(1, 1000000).show_default();
  command.option("--steps", options->steps, "Stop after so many steps; 0: after the epochs")
      .not_negative()
      .show_default();
  command.option("--batch-size", options->batch, "Examples a step").range(1, 1 << 20).show_default();
  command
      .option("--context", options->context,
              "Positions of an example at most (default: 512, or what the model was made for)")
      .range(1, 1 << 20);
  command.option("--lr", options->lr, "Learning rate of AdamW (default: 2e-5, with --lora 2e-4)").positive();
  command.option("--weight-decay", options->weight_decay, "Weight decay (default: 0)").not_negative();
  command.option("--clip-norm", options->clip_norm, "Bound of the norm of all gradients; 0: none (default: 1)")
      .not_negative();
  command.option("--schedule", options->schedule, "Of the learning rate").one_of(schedule_names()).show_default();
  command.option("--seed", options->seed, "Of the order and the adapter: the same seed, the same weights")
      .show_default();
  command.option("--device", options->device, "cpu, ref, cuda:0, ..., or best").show_default();
  command.option("--threads", options->threads, "Of the CPU; no result depends on it (default: all)").range(1, 1024);
  command.option("--checkpoint-every", options->checkpoint_every, "Steps between checkpoints; 0: one after each epoch")
      .not_negative()
      .show_default();
  command
      .flag_or(
          "--resume", "yes", options->resume,
          "Continue the run in --out from its last checkpoint, to the same bits; --resume=auto begins where there is "
          "none")
      .one_of({"yes", "auto"});
  command.flag("--overwrite", options->overwrite, "Begin again where --out holds a run; its checkpoints are removed");
  command.flag("--json", options->as_json, "One JSON object at the end instead of text, and no progress");
  command.footer(
      "Examples:\n"
      "  lockstep finetune --model SmolLM2-135M-Instruct.Q4_1.gguf --data chats.jsonl --lora 8 --out ada\n"
      "  lockstep generate --model SmolLM2-135M-Instruct.Q4_1.gguf --adapter ada --chat \"Who are you?\"\n"
      "  lockstep finetune --model llama --data text.jsonl --lr 1e-5 --epochs 2 --out tuned\n"
      "Adapters are those of the Python package peft.");
  command.runs([options, words = command.words()] { return finetune(*options, *words); });
}

void add_merge(CommandLine& line) {
  Subcommand command = line.subcommand("merge", "Add an adapter to its language model");
  const auto options = std::make_shared<MergeOptions>();
  command.option("--model", options->model, "The model that the adapter was trained for").required();
  command
      .option("--adapter", options->adapter,
              "A LoRA adapter: a folder as peft writes it (adapter_config.json), or a GGUF file")
      .required();
  command
      .option("--out", options->out, "A folder for a model in a folder, a .gguf file for a GGUF file; weights are f32")
      .required();
  command.flag("--json", options->as_json, "One JSON object instead of text");
  command.footer("Example: lockstep merge --model llama --adapter ada --out llama-ada");
  command.runs([options] { return merge(*options); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
