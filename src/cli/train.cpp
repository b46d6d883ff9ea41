// `lockstep train`: a network, trained on the user's pictures.
#include <filesystem>
#include <fstream>
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
#include "cli/state_hash.h"
#include "cli/terminal.h"
#include "cli/train_setup.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

namespace fs = std::filesystem;

struct Options {
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
  std::uint64_t seed = 0;
  int threads = 0;
  int workers = 1;
  bool no_augment = false;
  bool check_finite = false;
  bool resume = false;
  bool as_json = false;
};

models::Recipe chosen_recipe(const Options& options, const models::ImageClassifier& architecture) {
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
std::string describe(const Options& options, const std::string& architecture, const models::Recipe& recipe) {
  return fmt::format("{} on {}, {} epochs, {} steps, batch {}, {} lr {} decay {}, {}, seed {}{}{}{}", architecture,
                     options.data.source, options.epochs, options.steps, recipe.batch, recipe.optimizer, recipe.lr,
                     recipe.weight_decay, recipe.schedule, options.seed,
                     options.data.limit > 0 ? fmt::format(", {} examples", options.data.limit) : "",
                     options.data.side > 0 ? fmt::format(", side {}", options.data.side) : "",
                     options.no_augment ? ", no augmentation" : "");
}

void write_text(const fs::path& path, std::string_view text) {
  os::AtomicFile file(path.string());
  file.write(text);
  file.commit();
}

ExitCode train(Options options) {
  const models::ImageClassifier& architecture = chosen_architecture(options.architecture);
  const Device device = chosen_device(options.device);
  if (options.threads > 0) set_num_threads(options.threads);
  const fs::path out = options.out;
  const std::string checkpoints = (out / "checkpoints").string();
  if (!options.resume && !train::list_checkpoints(checkpoints).empty()) {
    throw UsageError(
        fmt::format("--out: {} holds a run already\n  fix: --resume to continue it, or another folder", options.out));
  }
  if (!os::make_directories(options.out)) throw IoError(fmt::format("cannot create the folder {}", options.out));

  options.data.seed = options.seed;
  options.data.augment = !options.no_augment;
  const TrainingData data = training_data(options.data, architecture);
  const models::Recipe recipe = chosen_recipe(options, architecture);
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
  const std::unique_ptr<optim::Schedule> schedule = make_schedule(recipe, *optimizer, steps);

  const std::optional<train::Checkpoint> from =
      options.resume ? train::load_latest(checkpoints) : std::optional<train::Checkpoint>();
  const std::int64_t keep = from ? from->step : 0;
  const std::string log_path = (out / "log.jsonl").string();
  std::vector<train::Record> records;
  if (keep > 0 && fs::exists(log_path)) records = train::read_json_log(log_path, keep);
  const auto csv = train::csv_log((out / "log.csv").string(), keep);
  const auto json_lines = train::json_log(log_path, keep);
  const auto events = train::tensorboard_log((out / "tensorboard").string(), keep);

  const Style style;
  if (!options.as_json) {
    print_line(fmt::format("{} on {}: {} parameters, {} + {} pictures, {} steps of {}, {}, {} threads",
                           style.bold(architecture.name), printable(options.data.source), model->parameter_count(),
                           data.train->size(), data.test->size(), steps, recipe.batch, device.to_string(),
                           num_threads()));
    std::fflush(stdout);
  }
  std::optional<CheckFinite> check_finite;
  if (options.check_finite) check_finite.emplace();
  const train::FitResult result = train::fit(*model, *optimizer, loader,
                                             {.epochs = options.epochs,
                                              .max_steps = options.steps,
                                              .schedule = schedule.get(),
                                              .test = &test,
                                              .checkpoints = checkpoints,
                                              .checkpoint_every = options.checkpoint_every,
                                              .resume = options.resume,
                                              .run = describe(options, architecture.name, recipe),
                                              .logs = {csv.get(), json_lines.get(), events.get()},
                                              .progress = !options.as_json});
  records.insert(records.end(), result.records.begin(), result.records.end());

  const std::vector<train::Panel> panels = train::training_panels(records);
  write_text(out / "plot.svg", train::plot_svg(panels));
  io::save_png((out / "plot.png").string(), train::plot_image(panels));
  std::string labels;
  for (const std::string& label : data.labels) labels += label + "\n";
  write_text(out / "labels.txt", labels);
  const std::string weights = (out / "weights.safetensors").string();
  const nn::StateDict state = model->state_dict();
  // With what `lockstep classify` has to know to use them.
  std::map<std::string, std::string> metadata = models::to_metadata(data.preprocessing);
  metadata.emplace("architecture", architecture.name);
  io::save_safetensors(weights, state, metadata);
  const std::string hash = hex(hash_of(state));

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
                   .add("architecture", json(architecture.name))
                   .add("data", json(options.data.source))
                   .add("device", json(device.to_string()))
                   .add("steps", json(result.steps))
                   .add("resumed_at", json(result.resumed_at))
                   .add("test_loss", json(test_loss))
                   .add("test_accuracy", json(test_accuracy))
                   .add("weights", json(weights))
                   .add("weights_hash", json(hash))
                   .add("seconds", json(result.seconds))
                   .text());
    return kOk;
  }
  print_line(fmt::format("{} of the test's pictures are right, weights {}, {:.1f} s",
                         style.bold(fmt::format("{:.2f} %", 100 * test_accuracy)), hash, result.seconds));
  print_line(fmt::format(
      "In {}: weights.safetensors, labels.txt, plot.png, plot.svg, log.csv, log.jsonl, tensorboard, checkpoints",
      printable(options.out)));
  return kOk;
}

}  // namespace

void add_train(CommandLine& line) {
  Subcommand command = line.subcommand("train", "Train a network on pictures");
  const auto options = std::make_shared<Options>();
  command
      .option("--data", options->data.source,
              "digits (built in), mnist:DIR, fashion:DIR, cifar10:DIR, or images:DIR with a folder per class")
      .required();
  command.option("--arch", options->architecture, "lenet, mlp, resnet20, ...: the networks of `lockstep classify`")
      .required();
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
  command.flag("--resume", options->resume, "Continue the run in --out from its last checkpoint, to the same bits");
  command.flag("--json", options->as_json, "One JSON object at the end instead of text, and no progress");
  command.footer(
      "Examples:\n"
      "  lockstep train --data digits --arch lenet --epochs 1\n"
      "  lockstep train --data mnist:data/mnist --arch lenet --out run1\n"
      "  lockstep train --data cifar10:data --arch resnet20 --epochs 30 --out run2 --resume\n"
      "`lockstep classify --weights OUT/weights.safetensors --labels OUT/labels.txt` uses what was trained.");
  command.runs([options] { return train(*options); });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
