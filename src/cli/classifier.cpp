#include "cli/classifier.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/autograd.h>

#include "cli/command.h"
#include "cli/suggest.h"
#include "core/checked.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

std::vector<std::size_t> Prediction::top(std::size_t count) const {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto before = [this](std::size_t a, std::size_t b) {
    const bool a_is_nan = std::isnan(logits[a]);
    const bool b_is_nan = std::isnan(logits[b]);
    if (a_is_nan != b_is_nan) return a_is_nan;
    if (!a_is_nan && logits[a] != logits[b]) return logits[a] > logits[b];
    return a < b;
  };
  count = std::min(count, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(), before);
  order.resize(count);
  return order;
}

std::string architecture_names() {
  std::string names;
  for (const models::ImageClassifier& architecture : models::architectures()) {
    names += (names.empty() ? "" : ", ") + architecture.name;
  }
  return names;
}

const models::ImageClassifier& chosen_architecture(const std::string& name) {
  try {
    return models::architecture(name);
  } catch (const ValueError&) {
    for (const models::Model& model : models::registry()) {
      if (models::name_of(model) != name) continue;
      throw UsageError(fmt::format("--arch: {} is for {}, not image classification", name, models::task_of(model)));
    }
    std::vector<std::string> names;
    for (const models::ImageClassifier& architecture : models::architectures()) names.push_back(architecture.name);
    const std::string guess = did_you_mean(name, names);
    throw UsageError(fmt::format("--arch: \"{}\" is no network{}", name,
                                 guess.empty() ? "\n  known: " + architecture_names() : guess));
  }
}

Classifier::Classifier(models::ImageClassifier architecture, const io::TensorMap& weights, Device device)
    : architecture_(std::move(architecture)), device_(device), model_(architecture_.load(weights, device)) {
  const nn::StateDict state = model_->state_dict();
  classes_ = static_cast<std::size_t>(state.find(architecture_.classifier)->shape()[0]);
}

std::size_t Classifier::good_batch_size() const {
  // Enough work for every thread, and activations of some tens of megabytes.
  return architecture_.preprocessing.width <= 32 ? 64 : 8;
}

std::vector<Prediction> Classifier::classify(const std::vector<io::Image>& images) const {
  if (images.empty()) return {};
  const NoGrad no_grad;
  const Tensor logits = model_->forward(models::preprocess(architecture_.preprocessing, images, device_));
  const std::vector<float> all_logits = logits.to_vector<float>();
  const std::vector<float> all_probabilities = softmax(logits, -1).to_vector<float>();
  std::vector<Prediction> predictions(images.size());
  for (std::size_t i = 0; i < images.size(); ++i) {
    const auto row = [&](const std::vector<float>& all) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(i * classes_);
      return std::vector<float>(first, first + static_cast<std::ptrdiff_t>(classes_));
    };
    predictions[i] = {row(all_logits), row(all_probabilities)};
  }
  return predictions;
}

namespace {

// {"0": "tench", "1": "goldfish", ...}, as transformers write them.
std::vector<std::string> labels_of_json(const std::string& path, std::string_view text) {
  const nlohmann::json object = nlohmann::json::parse(text, nullptr, false);
  std::vector<std::string> labels(object.is_object() ? object.size() : 0);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto label = object.find(std::to_string(i));
    if (label == object.end() || !label->is_string()) {
      throw FormatError(fmt::format("{}: class {} has no label", path, i));
    }
    labels[i] = label->get<std::string>();
  }
  if (labels.empty()) throw FormatError(fmt::format("{}: no JSON object of labels", path));
  return labels;
}

}  // namespace

std::vector<std::string> read_labels(const std::string& path) {
  const os::FileBytes file = os::read_file(path);
  if (text_of(file.bytes).starts_with('{')) return labels_of_json(path, text_of(file.bytes));
  std::istringstream text(std::string(text_of(file.bytes)));
  std::vector<std::string> labels;
  for (std::string line; std::getline(text, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    labels.push_back(line);
  }
  while (!labels.empty() && labels.back().empty()) labels.pop_back();
  return labels;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
