// `lockstep train`: a network, trained on the user's pictures.
#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include <lockstep/check_finite.h>
#include <lockstep/io.h>
#include <lockstep/threads.h>
#include <lockstep/train.h>

#include "cli/classifier.h"
#include "cli/command_line.h"
#include "cli/devices.h"
#include "cli/json.h"
#include "cli/numerics.h"
#include "cli/ranks.h"
#include "cli/run_begin.h"
#include "cli/run_folder.h"
#include "cli/terminal.h"
#include "cli/train_setup.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

namespace fs = std::filesystem;

struct TrainArguments {
  DataOptions data;
  std::string architecture;
  std::string device = "best";
  std::string optimizer;
  std::string schedule;
  std::string out = "lockstep-train";
  std::optional<double> lr;
  std::optional<double> weight_decay;
  std::int64_t batch = 0;
  std::int64_t epochs = 3;
  std::int64_t steps = 0;
  std::int64_t checkpoint_every = 0;
  std::string numerics = "exact";
  std::uint64_t seed = 0;
  int threads = 0;
  int workers = 1;
  bool no_augment = false;
  bool check_finite = false;
  RankOptions ranks;
  std::string resume;  ///< "", "yes", or "auto": where there is no checkpoint, begin
  bool overwrite = false;
  bool as_json = false;
};

models::Recipe chosen_recipe(const TrainArguments& options, const models::ImageClassifier& architecture) {
  models::Recipe recipe = architecture.recipe;
  if (!options.optimizer.empty() && options.optimizer != recipe.optimizer) {
    recipe.optimizer = options.optimizer;
    recipe.lr = options.optimizer == "sgd" ? 0.05 : 2e-3;
    recipe.weight_decay = options.optimizer == "adamw" ? 1e-2 : 0;
  }
  if (!options.schedule.empty()) recipe.schedule = options.schedule;
  if (options.lr) recipe.lr = *options.lr;
  if (options.weight_decay) recipe.weight_decay = *options.weight_decay;
  if (options.batch > 0) recipe.batch = options.batch;
  return recipe;
}

// Everything that decides the bits, so that a run is not continued as another one.
RunOptions run_options(const TrainArguments& options, const std::string& architecture, const models::Recipe& recipe,
                       int shards) {
  RunOptions result{{"--arch", architecture},
                    {"--data", options.data.source},
                    {"--epochs", fmt::to_string(options.epochs), true},
                    {"--steps", fmt::to_string(options.steps), true},
                    {"--batch-size", fmt::to_string(recipe.batch)},
                    {"--optimizer", recipe.optimizer},
                    {"--lr", fmt::to_string(recipe.lr)},
                    {"--weight-decay", fmt::to_string(recipe.weight_decay)},
                    {"--schedule", recipe.schedule},
                    {"--seed", fmt::to_string(options.seed)},
                    {"--limit", fmt::to_string(options.data.limit)},
                    {"--image-size", fmt::to_string(options.data.side)},
                    {"--no-augment", options.no_augment ? "given" : "not given"}};
  if (options.numerics != "exact") result.push_back({"--numerics", options.numerics});
  if (shards > 1) result.push_back({"--shards", fmt::to_string(shards)});
  return result;
}

void write_text(const std::string& path, std::string_view text) {
  os::AtomicFile file(path);
  file.write(text);
  file.commit();
}

// Weights, labels and plots; returns the weights' hash.
std::string write_results(const RunFolder& folder, const nn::StateDict& state, const TrainingData& data,
                          const std::string& architecture, const std::string& numerics,
                          const std::vector<train::Record>& records) {
  const std::vector<train::Panel> panels = train::training_panels(records);
  write_text(folder.file("plot.svg"), train::plot_svg(panels));
  io::save_png(folder.file("plot.png"), train::plot_image(panels));
  std::string labels;
  for (const std::string& label : data.labels) labels += label + "\n";
  write_text(folder.file("labels.txt"), labels);
  // With what `lockstep classify` has to know to use them.
  std::map<std::string, std::string> metadata = models::to_metadata(data.preprocessing);
  metadata.emplace("architecture", architecture);
  if (numerics != "exact") metadata.emplace("numerics", numerics);
  io::save_safetensors(folder.file("weights.safetensors"), state, metadata);
  return hex(nn::state_hash(state));
}

void report_results(const TrainArguments& options, const std::string& architecture, Device device,
                    const RunFolder& folder, const train::FitResult& result, const std::vector<train::Record>& records,
                    const std::string& hash, const dist::Parallel* parallel) {
  // The last test of a run that was complete when it was resumed is in its log.
  double test_accuracy = result.test.accuracy;
  double test_loss = result.test.loss;
  for (const train::Record& record : records) {
    if (record.split != "test") continue;
    test_accuracy = record.accuracy;
    test_loss = record.loss;
  }
  if (options.as_json) {
    print_line(JsonObject()
                   .add("architecture", json(architecture))
                   .add("data", json(options.data.source))
                   .add("device", json(device.to_string()))
                   .add("ranks", json(parallel ? parallel->group().size() : 1))
                   .add("shards", json(parallel ? parallel->options().shards : 1))
                   .add("zero", json(parallel ? parallel->options().zero : 0))
                   .add("numerics", json(options.numerics))
                   .add("steps", json(result.steps))
                   .add("resumed_at", json(result.resumed_at))
                   .add("test_loss", json(test_loss))
                   .add("test_accuracy", json(test_accuracy))
                   .add("weights", json(folder.file("weights.safetensors")))
                   .add("seconds", json(result.seconds))
                   .add("weights_hash", json(hash))
                   .text());
    return;
  }
  const Style style;
  print_line(fmt::format("{} of the test's pictures are right, weights {}, {:.1f} s",
                         style.bold(fmt::format("{:.2f} %", 100 * test_accuracy)), hash, result.seconds));
  print_line(fmt::format(
      "In {}: weights.safetensors, labels.txt, plot.png, plot.svg, log.csv, log.jsonl, tensorboard, checkpoints",
      printable(options.out)));
}

ExitCode train(TrainArguments options, const Architectures& architectures, const std::vector<std::string>& words) {
  const models::ImageClassifier& architecture = architectures.chosen(options.architecture);
  if (starts_ranks(options.ranks)) return run_ranks(options.ranks, words);
  const dist::Group group = joined_group(options.ranks);
  const bool is_first = group.rank() == 0;  // which alone prints and writes
  const int shards = options.ranks.chosen_shards(group);
  const Device device = chosen_device(options.device, group.local_rank());
  const models::Recipe recipe = chosen_recipe(options, architecture);
  const RunOptions now = run_options(options, architecture.name, recipe, shards);
  if (options.threads > 0) set_num_threads(options.threads);
  const RunFolder folder(options.out, is_first);
  std::optional<train::Checkpoint> from;
  const BeginOptions begin{options.out, options.resume, options.overwrite, options.as_json};
  if (is_first) from = begin_or_continue(begin, folder, now);

  options.data.seed = options.seed;
  options.data.augment = !options.no_augment;
  const TrainingData data = training_data(options.data, architecture);
  manual_seed(options.seed);
  const std::unique_ptr<nn::Layer> model = build_network(architecture, data);
  model->to(device);
  const std::unique_ptr<optim::Optimizer> optimizer = make_optimizer(recipe, *model);
  data::DataLoader loader(data.train, {.batch_size = std::min(recipe.batch, data.train->size()),
                                       .shuffle = true,
                                       .seed = options.seed,
                                       .drop_last = true,
                                       .workers = options.workers,
                                       .device = device});
  data::DataLoader test(data.test, {.batch_size = 250, .workers = options.workers, .device = device});
  const std::int64_t all_steps = options.epochs * loader.batches();
  const std::int64_t steps = options.steps > 0 ? std::min(options.steps, all_steps) : all_steps;
  if (from) check_length(folder, *from, now, loader.batches(), steps);
  group.barrier();
  if (!is_first && !options.resume.empty()) from = train::load_latest(folder.checkpoints());
  const std::unique_ptr<optim::Schedule> schedule = make_schedule(recipe, *optimizer, steps);

  const std::int64_t keep = from ? from->step : 0;
  std::vector<train::Record> records;
  if (keep > 0 && fs::exists(folder.file("log.jsonl"))) records = train::read_json_log(folder.file("log.jsonl"), keep);
  std::vector<std::unique_ptr<train::Log>> logs;
  if (is_first) {
    logs.push_back(train::csv_log(folder.file("log.csv"), keep));
    logs.push_back(train::json_log(folder.file("log.jsonl"), keep));
    logs.push_back(train::tensorboard_log(folder.file("tensorboard"), keep));
  }
  std::optional<dist::Parallel> parallel;
  if (shards > 1 || options.ranks.zero > 0) {
    parallel.emplace(*model, *optimizer, group, dist::ParallelOptions{.shards = shards, .zero = options.ranks.zero});
  }

  const Numerics numerics = chosen_numerics(options.numerics, device);
  const Style style;
  if (!options.as_json && is_first) {
    print_line(fmt::format("{} on {}: {} parameters, {} + {} pictures, {} steps of {}, {}, {} threads",
                           style.bold(architecture.name), printable(options.data.source), model->parameter_count(),
                           data.train->size(), data.test->size(), steps, recipe.batch, device.to_string(),
                           num_threads()));
    if (parallel) {
      const std::string by = group.size() == 1 ? "" : fmt::format(", by {}", group.engine());
      print_line(fmt::format("{} rank{}, {} shards, ZeRO {}{}", group.size(), group.size() == 1 ? "" : "s", shards,
                             options.ranks.zero, by));
    }
    if (options.numerics != "exact") print_line(fmt::format("Products in bf16, {} numerics", options.numerics));
    if (keep > 0) print_line(fmt::format("Continued behind step {}", keep));
    std::fflush(stdout);
  }
  std::optional<CheckFinite> check_finite;
  if (options.check_finite) check_finite.emplace();
  std::optional<os::StopRequest> stop(is_first ? kStopNotice : std::string_view());
  std::vector<train::Log*> log_list;
  for (const auto& log : logs) log_list.push_back(log.get());
  const train::FitResult result = train::fit(*model, *optimizer, loader,
                                             {.epochs = options.epochs,
                                              .max_steps = options.steps,
                                              .schedule = schedule.get(),
                                              .test = &test,
                                              .autocast = multiplied_dtype(numerics),
                                              .numerics = numerics,
                                              .checkpoints = folder.checkpoints(),
                                              .checkpoint_every = options.checkpoint_every,
                                              .resume = from.has_value(),
                                              .parallel = parallel ? &*parallel : nullptr,
                                              .run = to_text(now),
                                              .logs = log_list,
                                              .progress = !options.as_json && is_first,
                                              .stop = [&] { return stop->signal() != 0; }});
  const int signal = stop->signal() != 0 ? stop->signal() : SIGTERM;  // of another rank
  stop.reset();
  nn::StateDict state;
  if (!result.stopped) state = parallel ? parallel->module_state() : model->state_dict();
  if (!is_first) return result.stopped ? static_cast<ExitCode>(kSignal + signal) : kOk;
  if (result.stopped) return report_stop(begin, result, steps, signal, continuing(words));
  records.insert(records.end(), result.records.begin(), result.records.end());
  const std::string hash = write_results(folder, state, data, architecture.name, options.numerics, records);

  report_results(options, architecture.name, device, folder, result, records, hash, parallel ? &*parallel : nullptr);
  return kOk;
}

}  // namespace

void add_train(CommandLine& line, const std::shared_ptr<const Architectures>& architectures) {
  Subcommand command = line.subcommand("train", "Train a network on pictures");
  const auto options = std::make_shared<TrainArguments>();
  command
      .option("--data", options->data.source,
              "digits (built in), mnist:DIR, fashion:DIR, cifar10:DIR, or images:DIR with a folder per class")
      .required();
  command.option("--arch", options->architecture, "The network: " + architectures->names()).required();
  command.option("--epochs", options->epochs, "Passes over the training pictures").range(1, 1000000).show_default();
  command.option("--steps", options->steps, "Stop after so many steps; 0: after the epochs")
      .not_negative()
      .show_default();
  command.option("--device", options->device, "cpu, ref, cuda:0, ..., or best").show_default();
  command.option("--batch-size", options->batch, "Pictures a step (default: the network's)").range(1, 1 << 20);
  command.option("--lr", options->lr, "Learning rate (default: the network's and optimiser's)").positive();
  command.option("--weight-decay", options->weight_decay, "Weight decay (default: the network's and optimiser's)")
      .not_negative();
  command.option("--optimizer", options->optimizer, "Default: the network's").one_of(optimizer_names());
  command.option("--schedule", options->schedule, "Of the learning rate (default: the network's)")
      .one_of(schedule_names());
  command.option("--seed", options->seed, "Of weights, order and augmentation: the same seed, the same weights")
      .show_default();
  add_numerics(command, options->numerics);
  command.option("--threads", options->threads, "Of the CPU; no result depends on it (default: all)").range(1, 1024);
  command.option("--workers", options->workers, "Threads that prepare batches; no result depends on it")
      .range(0, 256)
      .show_default();
  command
      .option("--limit", options->data.limit, "Train with the first so many pictures only, test with a tenth of that")
      .positive();
  command.option("--image-size", options->data.side, "Side of the pictures of images:DIR (default: the network's)")
      .range(8, 1024);
  command.flag("--no-augment", options->no_augment, "No random crops and mirror images (cifar10 and images)");
  command.option("--out", options->out, "Folder for weights, logs, plots and checkpoints").show_default();
  command.option("--checkpoint-every", options->checkpoint_every, "Steps between checkpoints; 0: one after each epoch")
      .not_negative()
      .show_default();
  command.flag("--check-finite", options->check_finite,
               "Compute op by op and name the first that makes a NaN or an infinity; slow");
  command
      .flag_or(
          "--resume", "yes", options->resume,
          "Continue the run in --out from its last checkpoint, to the same bits; --resume=auto begins where there is "
          "none. A finished run goes on to larger --epochs")
      .one_of({"yes", "auto"});
  add_rank_options(command, options->ranks);
  command.flag("--overwrite", options->overwrite, "Begin again where --out holds a run; its checkpoints are removed");
  command.flag("--json", options->as_json, "One JSON object at the end instead of text, and no progress");
  command.footer(
      "Examples:\n"
      "  lockstep train --data digits --arch lenet --epochs 1\n"
      "  lockstep train --data mnist:data/mnist --arch lenet --out run1\n"
      "  lockstep train --data cifar10:data --arch resnet20 --epochs 30 --out run2 --resume=auto\n"
      "  lockstep train --data cifar10:data --arch resnet20 --ranks 4 --restarts 3\n"
      "`lockstep classify --weights OUT/weights.safetensors --labels OUT/labels.txt` uses what was trained.");
  command.runs([options, architectures, words = command.words()] {
    return as_rank([&] { return train(*options, *architectures, *words); });
  });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
