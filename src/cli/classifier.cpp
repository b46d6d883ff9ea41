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
#include "cli/train_setup.h"
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

namespace {

bool is_called(const models::ImageClassifier& row, const std::string& name) {
  return row.name == name || (!row.short_name.empty() && row.short_name == name);
}

}  // namespace

Architectures::Architectures(std::vector<models::ImageClassifier> own)
    : rows_(models::architectures().begin(), models::architectures().end()) {
  for (models::ImageClassifier& row : own) {
    if (row.name.empty()) throw ValueError("a network of one's own has no name");
    const auto refuse = [&](const std::string& what) {
      throw ValueError(fmt::format("network \"{}\" {}", row.name, what));
    };
    if (!row.build) refuse("has no function that builds it");
    if (row.classifier.empty()) refuse("does not say which parameter has a row for each class (classifier)");
    const auto is_one_of = [](const std::vector<std::string>& known, const std::string& name) {
      return std::find(known.begin(), known.end(), name) != known.end();
    };
    if (!is_one_of(optimizer_names(), row.recipe.optimizer) || !is_one_of(schedule_names(), row.recipe.schedule) ||
        !(row.recipe.lr > 0)) {
      refuse("does not say how it is trained, as --optimizer, --schedule and --lr do (recipe)");
    }
    for (const models::ImageClassifier& other : rows_) {
      if (is_called(other, row.name) || (!row.short_name.empty() && is_called(other, row.short_name))) {
        refuse("has the name of another one");
      }
    }
    rows_.push_back(std::move(row));
  }
}

std::string Architectures::names() const {
  std::string names;
  for (const models::ImageClassifier& row : rows_) names += (names.empty() ? "" : ", ") + row.name;
  return names;
}

const models::ImageClassifier& Architectures::chosen(const std::string& name) const {
  for (const models::ImageClassifier& row : rows_) {
    if (is_called(row, name)) return row;
  }
  for (const models::Model& model : models::registry()) {
    if (models::name_of(model) != name) continue;
    throw UsageError(fmt::format("--arch: {} is for {}, not image classification", name, models::task_of(model)));
  }
  std::vector<std::string> known;
  for (const models::ImageClassifier& row : rows_) known.push_back(row.name);
  const std::string guess = did_you_mean(name, known);
  throw UsageError(
      fmt::format("--arch: \"{}\" is no network{}", name, guess.empty() ? "\n  known: " + names() : guess));
}

Classifier::Classifier(models::ImageClassifier architecture, const io::TensorMap& weights, Device device)
    : architecture_(std::move(architecture)), device_(device), model_(architecture_.load(weights, device)) {
  if (architecture_.classifier.empty()) {
    classes_ = static_cast<std::size_t>(architecture_.classes);
    return;
  }
  const nn::StateDict state = model_->state_dict();
  const Tensor* last = state.find(architecture_.classifier);
  if (last == nullptr || last->rank() == 0) {
    throw ValueError(fmt::format("network \"{}\" has no parameter \"{}\" with a row for each class", architecture_.name,
                                 architecture_.classifier));
  }
  classes_ = static_cast<std::size_t>(last->shape()[0]);
}

std::size_t Classifier::good_batch_size() const {
  // Enough work for every thread, and activations of some tens of megabytes.
  return architecture_.preprocessing.width <= 32 ? 64 : 8;
}

std::vector<Prediction> Classifier::classify(const std::vector<io::Image>& images) const {
  if (images.empty()) return {};
  const NoGrad no_grad;
  const Tensor logits =
      model_->forward(models::preprocess(architecture_.preprocessing, images, device_)).to(DType::f32);
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
