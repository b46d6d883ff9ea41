// `lockstep demo`: one network on every device of this machine, and whether the bits agree.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <span>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <lockstep/version.h>

#include "cli/assets.h"
#include "cli/classifier.h"
#include "backends/backend.h"
#include "cli/command.h"
#include "cli/json.h"
#include "cli/terminal.h"
#include "core/hash.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

struct Picture {
  std::string name;
  std::string truth;  // pictures are named after their class: star.png, star_2.png
  io::Image image;
};

struct Result {
  Device device;
  std::vector<Prediction> predictions;
  std::size_t right = 0;
  std::uint64_t hash = 0;
  double seconds = 0;
};

std::vector<Picture> load_pictures(const std::filesystem::path& folder) {
  std::vector<Picture> pictures;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string stem = entry.path().stem().string();
    pictures.push_back(
        {entry.path().filename().string(), stem.substr(0, stem.find('_')), io::load_image(entry.path().string())});
  }
  std::sort(pictures.begin(), pictures.end(), [](const Picture& a, const Picture& b) { return a.name < b.name; });
  return pictures;
}

Result run_on(Device device, const models::Architecture& architecture, const io::TensorMap& weights,
              const std::vector<Picture>& pictures, const std::vector<std::string>& labels) {
  const Classifier classifier(architecture, weights, device);
  std::vector<io::Image> images;
  for (const Picture& picture : pictures) images.push_back(classifier.fit(picture.image));
  const auto start = std::chrono::steady_clock::now();
  Result result{.device = device, .predictions = classifier.classify(images)};
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ElementHasher hasher(DType::f32);
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    hasher.update(std::as_bytes(std::span(result.predictions[i].logits)));
    if (labels.at(result.predictions[i].top(1).front()) == pictures[i].truth) ++result.right;
  }
  result.hash = hasher.digest();
  return result;
}

std::string duration_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.1f} ms", 1000 * seconds) : fmt::format("{:.2f} s", seconds);
}

void print_json(const std::vector<Picture>& pictures, const std::vector<std::string>& labels,
                const std::vector<Result>& results, bool equal) {
  for (const Result& result : results) {
    JsonArray predictions;
    for (std::size_t i = 0; i < pictures.size(); ++i) {
      const Prediction& prediction = result.predictions[i];
      const std::size_t best = prediction.top(1).front();
      predictions.add(JsonObject()
                          .add("image", json(pictures[i].name))
                          .add("label", json(labels.at(best)))
                          .add("probability", json(prediction.probabilities[best]))
                          .text());
    }
    print_line(JsonObject()
                   .add("device", json(result.device.to_string()))
                   .add("predictions", predictions.text())
                   .add("correct", json(result.right))
                   .add("logits_hash", json(hex(result.hash)))
                   .add("seconds", json(result.seconds))
                   .text());
  }
  print_line(JsonObject()
                 .add("images", json(pictures.size()))
                 .add("devices", json(results.size()))
                 .add("equal", json(equal))
                 .text());
}

void print_text(const std::vector<Picture>& pictures, const std::vector<std::string>& labels,
                const std::vector<Result>& results, bool equal) {
  const Style style;
  print_line(style.bold(fmt::format("Lockstep {}", kVersion)) +
             fmt::format(": one network, {} pictures, every device of this machine", pictures.size()));
  print_line("");
  Table answers;
  std::vector<Table::Cell> header{{"picture", &Style::dim}};
  for (const Result& result : results) header.push_back({result.device.to_string(), &Style::dim});
  answers.add(header);
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    std::vector<Table::Cell> row{{printable(pictures[i].name)}};
    for (const Result& result : results) {
      const Prediction& prediction = result.predictions[i];
      const std::size_t best = prediction.top(1).front();
      const bool right = labels.at(best) == pictures[i].truth;
      row.push_back({fmt::format("{:<10}{:6.2f} %", printable(labels.at(best)),
                                 100.0 * static_cast<double>(prediction.probabilities[best])),
                     right ? nullptr : &Style::bad});
    }
    answers.add(row);
  }
  answers.print(style, "  ");
  print_line("");
  Table devices;
  devices.add({{"device", &Style::dim},
               {"right", &Style::dim},
               {"hash of all logits", &Style::dim},
               {"same bits", &Style::dim},
               {"time", &Style::dim, true}});
  for (const Result& result : results) {
    const bool same = result.hash == results.front().hash;
    devices.add({{result.device.to_string(), &Style::bold},
                 {fmt::format("{} of {}", result.right, pictures.size())},
                 {hex(result.hash)},
                 {same ? "yes" : "NO", same ? &Style::good : &Style::bad},
                 {duration_text(result.seconds), nullptr, true}});
  }
  devices.print(style, "  ");
  print_line("");
  print_line(equal ? style.good("Every device gave the same bits.")
                   : style.bad("The devices differ. Please report this with the output of `lockstep info`."));
}

ExitCode demo(bool as_json) {
  const std::filesystem::path folder = demo_assets();
  const std::vector<std::string> labels = read_labels((folder / "labels.txt").string());
  const std::vector<Picture> pictures = load_pictures(folder / "images");
  const io::TensorMap weights = io::load_weights((folder / "weights.safetensors").string());
  const models::Architecture& architecture = models::architecture("resnet8-cifar");
  std::vector<Result> results;
  bool equal = true;
  std::vector<Device> devices = Device::all();
  std::erase_if(devices, is_software);
  Progress progress(devices.size());
  for (const Device& device : devices) {
    progress.show(results.size());
    results.push_back(run_on(device, architecture, weights, pictures, labels));
    equal = equal && results.back().hash == results.front().hash;
  }
  progress.clear();
  as_json ? print_json(pictures, labels, results, equal) : print_text(pictures, labels, results, equal);
  return equal ? kOk : kFailure;
}

}  // namespace

Run add_demo(CLI::App& root) {
  CLI::App* const command = root.add_subcommand("demo", "Classify the shipped pictures on every device and compare");
  const auto as_json = std::make_shared<bool>(false);
  command->add_flag("--json", *as_json, "One JSON object a device instead of text");
  command->footer("Exit code 1 if two devices differ in one bit.");
  return [as_json] { return demo(*as_json); };
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
