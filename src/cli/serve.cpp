// `lockstep serve`: a page to click on, and its interface for programs.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/io/weights.h>
#include <lockstep/ops.h>

#include "cli/classifier.h"
#include "cli/command_line.h"
#include "cli/devices.h"
#include "cli/fetch.h"
#include "cli/json.h"
#include "cli/language.h"
#include "cli/ranks.h"
#include "cli/terminal.h"
#include "cli/user_message.h"
#include "core/os.h"
#include "graph/stored_hash.h"
#include "server/language.h"
#include "server/page.h"
#include "server/vision.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct ServeArguments {
  std::string model;
  std::string name;
  std::string date;
  std::string reasoning_format = "auto";
  ModelOptions load;
  ProductOptions products;
  std::string segment;
  std::string classify;
  std::string labels;
  std::string detect;
  std::string host = "127.0.0.1";
  int port = 8080;
  std::string token;
  int most_megabytes = 64;
  int connections = server::ServerOptions{}.connections;
  int waiting = server::ServerOptions{}.waiting;
  int seconds = server::ServerOptions{}.seconds;
  int request_seconds = server::ServerOptions{}.request_seconds;
  int prefix_megabytes = 256;
  std::string device = "best";
  RankOptions ranks;

  bool has_page() const { return !(segment.empty() && classify.empty() && detect.empty()); }
};

// "ARCH" or "ARCH=FILE".
void load_classifier(const ServeArguments& arguments, const Architectures& architectures,
                     server::VisionModels& models) {
  const std::size_t equals = arguments.classify.find('=');
  const models::ImageClassifier& row = architectures.chosen(arguments.classify.substr(0, equals));
  const std::string given = equals == std::string::npos ? row.published_weights : arguments.classify.substr(equals + 1);
  if (given.empty()) {
    throw UsageError(
        fmt::format("--classify {}: no place with its weights is known; give {}=FILE", row.name, row.name));
  }
  std::string labels = arguments.labels;
  if (labels.empty() && equals == std::string::npos) labels = row.published_labels;
  if (!labels.empty()) models.classes = read_labels(fetched(labels));
  const std::string weights = fetched(given);
  const io::Metadata metadata = io::list_tensors(weights, {.verify_checksums = false}).metadata;
  const models::ImageClassifier architecture = row.for_weights(metadata);
  models.preprocessing = architecture.preprocessing;
  models.classifier = architecture.load(io::load_weights(weights), models.device);
}

server::VisionModels load_models(const ServeArguments& arguments, const Architectures& architectures, Device device) {
  server::VisionModels models;
  models.device = device;
  if (!arguments.segment.empty()) {
    models.segmenter = models::Sam::load(io::load_weights(fetched(arguments.segment)), models.device);
  }
  if (!arguments.classify.empty()) load_classifier(arguments, architectures, models);
  if (!arguments.detect.empty()) {
    models.detector = models::YoloV8::load(io::load_weights(fetched(arguments.detect)), models.device);
    models.objects = models::coco_labels();
    const auto classes = static_cast<std::size_t>(models.detector->classes());
    if (classes != models.objects.size()) {
      models.objects.clear();
      for (std::size_t i = 0; i < classes; ++i) models.objects.push_back(fmt::format("class {}", i));
    }
  }
  return models;
}

// A model's own name, without its folder.
std::string name_of(const std::string& path) {
  const std::filesystem::path given = path.ends_with('/') ? path.substr(0, path.size() - 1) : path;
  return given.filename().string();
}

// As nn::state_hash; packed weights stand there by the hash of their blocks, which are not unpacked for that.
std::uint64_t weights_hash(const models::LanguageModel& model) {
  nn::StateDict state;
  for (const auto& [name, tensor] : model.state_dict()) {
    if (tensor.encoding() == Encoding::dense) {
      state.push_back(name, tensor);
    } else {
      state.push_back(name, Tensor::from(std::vector{static_cast<std::int64_t>(graph::stored_hash(tensor))}, {1}));
    }
  }
  return nn::state_hash(state);
}

server::ServedLanguageModel load_language(const ServeArguments& arguments, Device device, const dist::Group& group) {
  const std::string path = fetched_model(arguments.model);
  ModelOptions load = arguments.load;
  load.group = group;
  std::uint64_t weights = 0;
  server::ServedLanguageModel served{
      .model =
          load.load_model(path, device, [&](const models::LanguageModel& whole) { weights = weights_hash(whole); }),
      .tokenizer = text::Tokenizer::load(path),
      .chat = {},
      .name = arguments.name.empty() ? name_of(arguments.model) : arguments.name,
      .fingerprint = {},
      .thoughts_apart = server::thoughts_apart(arguments.reasoning_format).value(),
      .date = arguments.date,
      .device = device,
      .numerics = arguments.products.chosen(),
      .most_requests = arguments.waiting,
      .prefix_bytes = static_cast<std::int64_t>(arguments.prefix_megabytes) << 20};
  if (group.size() > 1) served.orders = std::make_shared<dist::Orders>(group);
  served.pooling = models::pooling_of(path, *served.model);
  if (models::label_count(*served.model) > 0) {
    try {
      served.rerank = models::rerank_form_of(path, *served.model);
    } catch (const ValueError&) {  // several labels: there is no score
    }
  }
  // Of its weights, and of what is computed with them: the logits of its first token.
  const NoGrad no_grad;
  const NumericsScope numerics(served.numerics);
  const auto cache = served.model->encoder() ? nullptr : served.model->make_cache();
  const Tensor logits = served.model->forward(Tensor::from(std::vector<std::int64_t>{0}, {1, 1}, device), cache.get());
  served.fingerprint = fmt::format("fp_{}_{}", hex(weights), hex(logits.hash()));
  try {
    served.chat = text::ChatTemplate::load(path);
  } catch (const ValueError&) {  // it has none: requests for chats are refused, those for texts are not
  }
  return served;
}

// The other ranks: until the first one ends, which alone is told to stop.
ExitCode follow(const server::ServedLanguageModel& served) {
  const os::StopRequest stop("");
  server::ModelSteps steps(*served.model, served.device, served.numerics, served.prefix_bytes, served.orders);
  steps.follow();
  return kOk;
}

ExitCode serve(const ServeArguments& arguments, const Architectures& architectures) {
  const CallScope call(CallSite("", 0));  // errors are about what was given, not about lines of this file
  const dist::Group group = joined_group(arguments.ranks);
  const Device device = chosen_device(arguments.device, group.local_rank());
  if (group.rank() > 0) return follow(load_language(arguments, device, group));
  std::string token = arguments.token;
  if (const char* given = std::getenv("LOCKSTEP_TOKEN"); token.empty() && given != nullptr) token = given;
  server::HttpServer http({.host = arguments.host,
                           .port = arguments.port,
                           .token = token,
                           .body_bytes = static_cast<std::size_t>(arguments.most_megabytes) << 20,
                           .connections = arguments.connections,
                           .waiting = arguments.waiting,
                           .seconds = arguments.seconds,
                           .request_seconds = arguments.request_seconds,
                           .worded = [](std::string_view message) { return without_sources(message); }});
  server::VisionService vision(load_models(arguments, architectures, device));
  const bool has_page = arguments.has_page();
  if (has_page) vision.add_to(http);
  std::optional<server::LanguageService> language;
  std::shared_ptr<dist::Orders> orders;
  bool chats = false;
  if (!arguments.model.empty()) {
    server::ServedLanguageModel served = load_language(arguments, device, group);
    chats = served.chat.has_value();
    orders = served.orders;
    language.emplace(std::move(served)).add_to(http);
  }
  server::add_pages(http, has_page, chats);
  const os::StopRequest stop("\nstopping: requests that have begun are answered; once more ends at once\n");
  const std::string url = http.start();
  print_line(fmt::format("{}{}", url, token.empty() ? "" : "#token=" + token));
  std::fflush(stdout);
  fmt::print(stderr, "{}; Ctrl-C stops\n",
             has_page || chats ? "open it in a browser" : "OpenAI's interface is below /v1");
  const auto failure = [&] { return orders == nullptr ? nullptr : orders->failure(); };
  while (stop.signal() == 0 && failure() == nullptr) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  http.stop();
  if (failure() != nullptr) std::rethrow_exception(failure());
  if (orders != nullptr) orders->end();
  return kOk;
}

ExitCode run(const ServeArguments& arguments, const Architectures& architectures,
             const std::vector<std::string>& words) {
  if (!arguments.has_page() && arguments.model.empty()) {
    throw UsageError("what to serve? Give --model, --segment, --classify or --detect");
  }
  if (!server::thoughts_apart(arguments.reasoning_format)) {
    throw UsageError(fmt::format("--reasoning-format: auto, deepseek or none, not \"{}\"", arguments.reasoning_format));
  }
  const bool starts = starts_ranks(arguments.ranks);
  if (starts && arguments.model.empty()) throw UsageError("--ranks divides a language model: give --model");
  return starts ? run_ranks(arguments.ranks, words) : serve(arguments, architectures);
}

}  // namespace

void add_serve(CommandLine& line, const std::shared_ptr<const Architectures>& architectures) {
  Subcommand command = line.subcommand("serve", "Serve a page to click on, and its interface for programs");
  const auto arguments = std::make_shared<ServeArguments>();
  command.option("--model", arguments->model,
                 "A language model as `generate` takes it, behind OpenAI's interface (/v1/...)");
  command.option("--name", arguments->name, "What clients call it; absent: the last part of --model");
  command.option("--date", arguments->date, "For templates that ask for it, 2026-11-23; absent: the template's own");
  command
      .option("--reasoning-format", arguments->reasoning_format,
              "Thoughts of chats' answers: apart as reasoning_content (auto, deepseek), or in the content (none)")
      .show_default();
  arguments->load.add_to(command);
  arguments->products.add_to(command);
  command.option("--segment", arguments->segment, "Weights of MobileSAM or Segment Anything, as `segment` takes them");
  command.option("--classify", arguments->classify,
                 "A network as `classify --arch` takes it, or NAME=FILE with its weights");
  command.option("--labels", arguments->labels, "The names of its classes, as `classify --labels` takes them");
  command.option("--detect", arguments->detect, "Weights of YOLOv8, as `detect` takes them");
  command.option("--host", arguments->host, "The address to listen on; others than this machine's own need a token")
      .show_default();
  command.option("--port", arguments->port, "0: any that is free").show_default().range(0, 65535);
  command.option("--token", arguments->token,
                 "What clients have to know; better in $LOCKSTEP_TOKEN, which other users of the machine cannot see");
  command.option("--most-megabytes", arguments->most_megabytes, "Of one request").show_default().range(1, 4096);
  command.option("--connections", arguments->connections, "At a time").show_default().range(1, 4096);
  command
      .option("--waiting", arguments->waiting,
              "Requests that wait to be computed, or get answers of a language model; more are refused (503, 429)")
      .show_default()
      .range(1, 4096);
  command.option("--seconds", arguments->seconds, "That a client may be silent").show_default().range(1, 3600);
  command
      .option("--request-seconds", arguments->request_seconds,
              "That a request may take to arrive (else 408), and an answer of a language model to be made (504)")
      .show_default()
      .range(1, 1 << 20);
  command
      .option("--prefix-megabytes", arguments->prefix_megabytes,
              "Of what was read of texts, for those that begin alike; 0 reads every prompt anew")
      .show_default()
      .range(0, 1 << 20);
  command.option("--device", arguments->device, "Where to compute: cpu, ref, ... or best").show_default();
  add_rank_count(command, arguments->ranks,
                 "Divide the language model among so many processes of this machine; no answer depends on it");
  command.footer(
      "Examples:\n"
      "  lockstep serve --segment mobile_sam.pt\n"
      "  lockstep serve --model SmolLM2-135M-Instruct.Q4_1.gguf\n"
      "  lockstep serve --segment mobile_sam.pt --classify resnet18 --detect yolov8n.safetensors --port 0\n"
      "The interface for programs: docs/serving.md");
  command.runs([arguments, architectures, words = command.words()] {
    return as_rank([&] { return run(*arguments, *architectures, *words); });
  });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
