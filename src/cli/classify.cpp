// `lockstep classify`: what pictures show.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "cli/classifier.h"
#include "cli/command_line.h"
#include "cli/devices.h"
#include "cli/fetch.h"
#include "cli/json.h"
#include "cli/numerics.h"
#include "cli/ranks.h"
#include "cli/terminal.h"
#include "cli/user_message.h"
#include "core/hash.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct ClassifyArguments {
  std::string architecture;
  std::string weights;
  std::string labels;
  std::string tokenizer;
  std::string device = "best";
  std::string numerics = "exact";
  std::size_t top = 5;
  std::size_t batch = 0;
  bool as_json = false;
  RankOptions ranks;
  std::vector<std::string> images;
};

// A picture that waits for its batch, or the reason why there is none. `load` is for the rank that classifies it.
struct Item {
  std::string name;
  std::function<io::Image()> load;
  std::optional<std::size_t> truth;
  std::string error;
};

// What a rank found of an item.
struct Classified {
  Prediction prediction;
  std::string error;
};

bool is_cifar(const std::string& path) {
  std::string extension = std::filesystem::path(path).extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return extension == ".bin";
}

std::size_t count_images(const std::vector<std::string>& paths) {
  std::size_t count = 0;
  for (const std::string& path : paths) {
    std::error_code failed;
    const std::uintmax_t bytes = is_cifar(path) ? std::filesystem::file_size(path, failed) : 0;
    count += is_cifar(path) && !failed ? static_cast<std::size_t>(bytes / (1 + io::CifarFile::kImageBytes)) : 1;
  }
  return count;
}

Tensor tensor_of(const std::string& text) {
  return Tensor::from(std::vector<std::uint8_t>(text.begin(), text.end()), {static_cast<std::int64_t>(text.size())},
                      Device{});
}

// From the rank that classified them to rank 0, which gets them; floats as they are, errors as text.
std::vector<Classified> brought(const dist::Group& group, int from, std::size_t count, std::size_t classes,
                                std::vector<Classified> own) {
  if (group.rank() == from && from == 0) return own;
  if (group.rank() != from && group.rank() != 0) return {};
  const auto rows = static_cast<std::int64_t>(count);
  const auto width = static_cast<std::int64_t>(classes);
  constexpr std::int64_t kMostError = 1 << 16;
  if (group.rank() == from) {
    std::vector<float> floats;
    std::vector<std::int64_t> lengths;
    std::string errors;
    for (Classified& answer : own) {
      answer.error.resize(std::min<std::size_t>(answer.error.size(), kMostError));
      errors += answer.error;
      lengths.push_back(static_cast<std::int64_t>(answer.error.size()));
      for (std::vector<float>* values : {&answer.prediction.logits, &answer.prediction.probabilities}) {
        values->resize(classes);
        floats.insert(floats.end(), values->begin(), values->end());
      }
    }
    group.send(Tensor::from(lengths, {rows}, Device{}), 0);
    group.send(Tensor::from(floats, {rows, 2, width}, Device{}), 0);
    group.send(tensor_of(errors), 0);
    return {};
  }
  const auto lengths = group.recv(zeros({rows}, {.dtype = DType::i64}), from).to_vector<std::int64_t>();
  const auto floats = group.recv(zeros({rows, 2, width}), from).to_vector<float>();
  std::int64_t all = 0;
  for (const std::int64_t length : lengths) {
    if (length < 0 || length > kMostError) {
      throw dist::DistributedError(fmt::format("dist: rank {} announced an error of {} bytes", from, length), from);
    }
    all += length;
  }
  const auto errors = group.recv(zeros({all}, {.dtype = DType::u8}), from).to_vector<std::uint8_t>();
  std::vector<Classified> answers(count);
  auto at = floats.begin();
  auto error = errors.begin();
  for (std::size_t i = 0; i < count; ++i) {
    const auto next = [&] {
      std::vector<float> values(at, at + width);
      at += width;
      return values;
    };
    answers[i].prediction.logits = next();
    answers[i].prediction.probabilities = next();
    answers[i].error.assign(error, error + lengths[i]);
    error += lengths[i];
  }
  return answers;
}

// Collects pictures and deals them to the ranks by the batch. Rank 0 prints the results in the order of the arguments.
class Session {
 public:
  Session(const ClassifyArguments& options, const Classifier& classifier, std::vector<std::string> labels,
          dist::Group group)
      : options_(options),
        classifier_(classifier),
        labels_(std::move(labels)),
        group_(std::move(group)),
        batch_(options.batch > 0 ? options.batch : classifier.good_batch_size()),
        progress_(count_images(options.images)) {}

  void add(const std::string& path) {
    if (!is_cifar(path)) {
      add_item({.name = path, .load = [path] { return io::load_image(path); }, .truth = {}, .error = {}});
      return;
    }
    std::shared_ptr<io::CifarFile> file;
    try {
      file = std::make_shared<io::CifarFile>(io::CifarFile::load(path));
    } catch (const Error& error) {
      add_item({.name = path, .load = {}, .truth = {}, .error = without_sources(error.what())});
      return;
    }
    for (std::size_t i = 0; i < file->size(); ++i) {
      add_item({.name = fmt::format("{}#{}", path, i),
                .load = [file, i] { return file->image(i); },
                .truth = file->labels[i],
                .error = {}});
    }
  }

  void flush() {
    const auto batch_of = [&](int rank) {
      const std::size_t first = std::min(items_.size(), static_cast<std::size_t>(rank) * batch_);
      return std::span(items_).subspan(first, std::min(batch_, items_.size() - first));
    };
    std::vector<Classified> own = answers_of(batch_of(group_.rank()));
    if (group_.rank() == 0) progress_.clear();
    for (int rank = 0; rank < group_.size(); ++rank) {
      const std::span<const Item> batch = batch_of(rank);
      if (batch.empty()) break;
      const std::vector<Classified> answers =
          brought(group_, rank, batch.size(), classifier_.classes(),
                  rank == group_.rank() ? std::move(own) : std::vector<Classified>());
      for (std::size_t i = 0; i < answers.size(); ++i) {
        answers[i].error.empty() ? report(batch[i], answers[i].prediction) : report_error(batch[i], answers[i].error);
      }
    }
    items_.clear();
    if (group_.rank() == 0) progress_.show(count_ + failed_);
  }

  void summarise(double seconds) {
    progress_.clear();
    if (options_.as_json) {
      print_line(JsonObject()
                     .add("images", json(count_))
                     .add("labelled", json(labelled_))
                     .add("correct", labelled_ > 0 ? json(correct_) : "null")
                     .add("logits_hash", json(hex(hasher_.digest())))
                     .add("numerics", json(options_.numerics))
                     .text());
      return;
    }
    std::string text = fmt::format("{} {}", count_, count_ == 1 ? "image" : "images");
    if (labelled_ > 0) {
      text += fmt::format(", {} of {} right ({:.2f} %)", correct_, labelled_,
                          100.0 * static_cast<double>(correct_) / static_cast<double>(labelled_));
    }
    if (failed_ > 0) text += fmt::format(", {} not readable", failed_);
    if (options_.numerics != "exact") text += fmt::format(", {} numerics", options_.numerics);
    print_line(fmt::format("{}, logits {}{}", style_.bold(text), hex(hasher_.digest()),
                           style_.dim(fmt::format(", {:.2f} s", seconds))));
  }

  bool failed() const { return failed_ > 0; }

 private:
  void add_item(Item item) {
    items_.push_back(std::move(item));
    if (items_.size() == batch_ * static_cast<std::size_t>(group_.size())) flush();
  }

  std::vector<Classified> answers_of(std::span<const Item> items) const {
    std::vector<Classified> answers(items.size());
    std::vector<io::Image> images;
    for (std::size_t i = 0; i < items.size(); ++i) {
      answers[i].error = items[i].error;
      if (!items[i].error.empty()) continue;
      try {
        images.push_back(classifier_.fit(items[i].load()));
      } catch (const Error& error) {
        answers[i].error = without_sources(error.what());
      }
    }
    std::vector<Prediction> predictions = classifier_.classify(images);
    std::size_t next = 0;
    for (Classified& answer : answers) {
      if (answer.error.empty()) answer.prediction = std::move(predictions[next++]);
    }
    return answers;
  }

  std::string label_of(std::size_t index) const {
    return index < labels_.size() ? printable(labels_[index]) : fmt::format("class {}", index);
  }

  void report(const Item& item, const Prediction& prediction) {
    ++count_;
    hasher_.update(std::as_bytes(std::span(prediction.logits)));
    const std::vector<std::size_t> top = prediction.top(std::max<std::size_t>(options_.top, 1));
    const bool right = item.truth && top.front() == *item.truth;
    labelled_ += item.truth ? 1 : 0;
    correct_ += right ? 1 : 0;
    options_.as_json ? print_json(item, prediction, top) : print_text(item, prediction, top, right);
  }

  void print_json(const Item& item, const Prediction& prediction, const std::vector<std::size_t>& top) const {
    JsonArray classes;
    for (const std::size_t index : top) {
      classes.add(JsonObject()
                      .add("index", json(index))
                      .add("label", index < labels_.size() ? json(labels_[index]) : "null")
                      .add("probability", json(prediction.probabilities[index]))
                      .text());
    }
    JsonArray logits;
    for (const float logit : prediction.logits) logits.add(json(logit));
    print_line(
        JsonObject().add("image", json(item.name)).add("top", classes.text()).add("logits", logits.text()).text());
  }

  void print_text(const Item& item, const Prediction& prediction, const std::vector<std::size_t>& top,
                  bool right) const {
    std::string text = printable(item.name) + " ";
    for (std::size_t i = 0; i < top.size(); ++i) {
      const std::string entry =
          fmt::format("{} {:.2f} %", label_of(top[i]), 100.0 * static_cast<double>(prediction.probabilities[top[i]]));
      text += " " + (i > 0 ? style_.dim(" " + entry) : style_.bold(entry));
    }
    if (item.truth && !right) text += style_.bad(fmt::format("  it is {}", label_of(*item.truth)));
    print_line(text);
  }

  void report_error(const Item& item, const std::string& error) {
    ++failed_;
    if (options_.as_json) {
      print_line(JsonObject().add("image", json(item.name)).add("error", json(error)).text());
    } else {
      fmt::print(stderr, "lockstep: {}\n", printable_lines(error));
    }
  }

  const ClassifyArguments& options_;
  const Classifier& classifier_;
  std::vector<std::string> labels_;
  dist::Group group_;
  std::size_t batch_;
  Progress progress_;
  Style style_;
  ElementHasher hasher_{DType::f32};
  std::vector<Item> items_;
  std::size_t count_ = 0;
  std::size_t labelled_ = 0;
  std::size_t correct_ = 0;
  std::size_t failed_ = 0;
};

// A network with its weights, and the names of its classes.
struct Setup {
  models::ImageClassifier architecture;
  io::TensorMap weights;
  std::vector<std::string> labels;
};

// From a file if there is one of that name, else what stands between commas.
std::vector<std::string> texts_of(const std::string& labels) {
  if (labels.starts_with("hf:") || std::filesystem::exists(labels)) return read_labels(fetched(labels));
  std::vector<std::string> texts;
  std::string_view rest = labels;
  while (true) {
    const std::size_t comma = rest.find(',');
    std::string_view text = rest.substr(0, comma);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    text.remove_suffix(text.size() - (text.find_last_not_of(' ') + 1));
    if (text.empty()) throw UsageError(fmt::format("--labels: a text is empty in \"{}\"", printable(labels)));
    texts.emplace_back(text);
    if (comma == std::string_view::npos) return texts;
    rest.remove_prefix(comma + 1);
  }
}

Setup setup_by_texts(const ClassifyArguments& options, const models::ImageTextModel& model) {
  if (options.labels.empty()) {
    throw UsageError(fmt::format(
        "--labels is required: which texts is {} to choose from? E.g. --labels \"a dog,a cat\"", model.name));
  }
  Setup setup{.labels = texts_of(options.labels)};
  const auto given_or = [](const std::string& given, const std::string& published) {
    return fetched(given.empty() ? published : given);
  };
  const auto tokenizer = text::Tokenizer::load(given_or(options.tokenizer, model.published_tokenizer));
  setup.weights = io::load_weights(given_or(options.weights, model.published_weights));
  setup.architecture = model.classifier(setup.weights, tokenizer, setup.labels);
  return setup;
}

Setup setup_of(ClassifyArguments options, const Architectures& architectures) {
  if (const auto* model = models::find_model<models::ImageTextModel>(options.architecture)) {
    return setup_by_texts(options, *model);
  }
  const models::ImageClassifier& architecture = architectures.chosen(options.architecture);
  if (!options.tokenizer.empty()) throw UsageError(fmt::format("{} takes no --tokenizer", architecture.name));
  if (options.weights.empty()) {
    if (architecture.published_weights.empty()) {
      throw UsageError(fmt::format("--weights is required: no place with weights of {} is known", architecture.name));
    }
    options.weights = architecture.published_weights;
    if (options.labels.empty()) options.labels = architecture.published_labels;
  }
  std::vector<std::string> labels;
  if (!options.labels.empty()) labels = read_labels(fetched(options.labels));
  const std::string weights = fetched(options.weights);
  // The checksums are verified with the weights.
  const io::Metadata metadata = io::list_tensors(weights, {.verify_checksums = false}).metadata;
  return {architecture.for_weights(metadata), io::load_weights(weights), std::move(labels)};
}

ExitCode classify(const ClassifyArguments& options, const Architectures& architectures,
                  const std::vector<std::string>& words) {
  if (starts_ranks(options.ranks)) return run_ranks(options.ranks, words);
  const auto start = std::chrono::steady_clock::now();
  const dist::Group group = joined_group(options.ranks);
  const Device device = chosen_device(options.device, group.local_rank());
  const ChosenNumerics scope(chosen_numerics(options.numerics, device));
  Setup setup = setup_of(options, architectures);
  const Classifier classifier(setup.architecture, setup.weights, device);
  if (!setup.labels.empty() && setup.labels.size() != classifier.classes()) {
    throw ValueError(fmt::format("{}: {} labels for a network of {} classes", options.labels, setup.labels.size(),
                                 classifier.classes()));
  }
  Session session(options, classifier, std::move(setup.labels), group);
  for (const std::string& path : options.images) session.add(path);
  session.flush();
  if (group.rank() > 0) return kOk;
  session.summarise(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return session.failed() ? kFailure : kOk;
}

}  // namespace

void add_classify(CommandLine& line, const std::shared_ptr<const Architectures>& architectures) {
  Subcommand command =
      line.subcommand("classify", "Classify pictures with a published network, or one that `train` made");
  const auto options = std::make_shared<ClassifyArguments>();
  command
      .option("--arch", options->architecture,
              "The network: " + architectures->names() +
                  "; or one that compares with texts: " + models::names_of_models<models::ImageTextModel>())
      .required();
  command.option(
      "--weights", options->weights,
      "Its weights: safetensors, PyTorch (.pt, .pth, .th) or NumPy (.npz); hf:OWNER/NAME/FILE is downloaded once. "
      "Without it, those that torchvision published (resnet18 to resnet152)");
  command.option("--labels", options->labels,
                 "A file with the name of one class a line, or a JSON object {\"0\": name, ...}; for clip_... texts "
                 "such as \"a dog,a cat\", too");
  command.option("--tokenizer", options->tokenizer, "Of clip_...: its tokenizer.json; without it, the published one");
  command.option("--device", options->device, "Where to compute: cpu, ref, ... or best").show_default();
  add_numerics(command, options->numerics);
  command.option("--top", options->top, "How many classes to report").show_default().range(1, 1000000);
  command.option("--batch", options->batch, "Pictures computed at a time; no result depends on it").range(1, 65536);
  add_rank_count(command, options->ranks, "Work as so many processes of this machine; no result depends on it");
  command.flag("--json", options->as_json, "One JSON object a line instead of text");
  command.option("IMAGE", options->images, "PNG or JPEG files, or CIFAR-10 records (.bin), whose labels are scored")
      .required();
  command.footer(
      "Examples:\n"
      "  lockstep classify --arch resnet20-cifar --weights resnet20.th --top 1 test_batch.bin\n"
      "  lockstep classify --arch resnet18 cat.jpg\n"
      "  lockstep classify --arch clip_vit_b_32 --labels \"a photo of a dog,a photo of a cat\" cat.jpg\n"
      "  lockstep classify --arch resnet18 --weights resnet18.safetensors --labels imagenet.txt cat.jpg\n"
      "  lockstep classify --arch lenet --weights run/weights.safetensors --labels run/labels.txt digit.png\n"
      "An image that cannot be read is reported, the others are classified, and the exit code is 1.");
  command.runs([options, architectures, words = command.words()] {
    return as_rank([&] { return classify(*options, *architectures, *words); });
  });
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
