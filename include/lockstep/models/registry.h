// The models that have a name: a row each, which says what the model is for, how it is built, and what it takes.
// `lockstep train --arch` and `lockstep classify --arch` know exactly the image classifiers among them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include <lockstep/io/metadata.h>
#include <lockstep/models/clip.h>
#include <lockstep/models/dinov2.h>
#include <lockstep/models/preprocessing.h>
#include <lockstep/models/sam.h>
#include <lockstep/models/yolo.h>
#include <lockstep/nn/module.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// How a model is trained unless told otherwise.
struct Recipe {
  std::string optimizer;
  double lr = 0;
  double weight_decay = 0;
  std::string schedule;
  std::int64_t batch = 64;
};

/// What an image classifier is built for.
struct ImageClassifierConfig {
  std::int64_t classes = 0;
  std::int64_t channels = 3;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// A row for the task of saying which of some classes a picture shows: from [N, channels, H, W] to logits [N, classes].
struct LOCKSTEP_API ImageClassifier {
  static constexpr std::string_view kTask = "image classification";

  std::string name;
  std::string short_name;       ///< Means the same; empty if there is none.
  Preprocessing preprocessing;  ///< What published weights take.
  std::int64_t classes = 0;     ///< Of published weights.
  std::string classifier;       ///< The parameter whose first dimension is the number of classes; empty: it is `classes`.
  bool any_pictures = false;    ///< Built for the channels and the size of its config; else for 3 and any.
  std::string published_weights = {};  ///< For io::local_file; empty where no place is known.
  std::string published_labels = {};   ///< Likewise, the names of their classes.
  Recipe recipe;
  std::function<std::unique_ptr<nn::Layer>(const ImageClassifierConfig&)> build;
  /// Weights of older files under today's keys; absent where those never changed.
  std::function<nn::StateDict(const nn::StateDict&)> with_current_names = {};

  /// A new model for pictures as `preprocessing` makes them, with random weights, on the CPU, in training mode.
  std::unique_ptr<nn::Layer> create(std::int64_t class_count) const;
  /// A model with these weights, in f32 and evaluation mode; the number of classes is that of the weights.
  /// Throws ValueError or ShapeError if they are another network's.
  std::unique_ptr<nn::Layer> load(const nn::StateDict& weights, Device device = {}, CallSite site = {}) const;
  /// This row for the weights of a file with these metadata: its `preprocessing` is what they were trained with, where
  /// the file says it. Throws ValueError if they are of another model by name, FormatError if they make no sense.
  ImageClassifier for_weights(const io::Metadata& metadata) const;
};

using Architecture = ImageClassifier;

/// A row for the task of finding the mask of what a point or a box points at. Sam::load finds the row of weights.
struct LOCKSTEP_API PromptableSegmenter {
  static constexpr std::string_view kTask = "promptable segmentation";

  std::string name;  ///< Of the published checkpoint.
  SamKind kind{};

  /// A new model with random weights, on the CPU, in training mode.
  std::unique_ptr<Sam> create() const { return std::make_unique<Sam>(SamOptions::of(kind)); }
};

/// A row for the task of finding the objects of a picture. YoloV8::load finds the size of weights.
struct LOCKSTEP_API ObjectDetector {
  static constexpr std::string_view kTask = "object detection";

  std::string name;
  YoloSize size{};

  /// A new model with random weights, on the CPU, in training mode.
  std::unique_ptr<YoloV8> create() const { return std::make_unique<YoloV8>(YoloV8Options::of(size)); }
};

/// A row for the task of saying which of some texts fits a picture: a classifier without training.
struct LOCKSTEP_API ImageTextModel {
  static constexpr std::string_view kTask = "image classification by texts";

  std::string name;
  std::string published_weights = {};    ///< For io::local_file; empty where no place is known.
  std::string published_tokenizer = {};  ///< Likewise, its tokenizer.json.

  /// An image classifier whose classes are these texts, for these weights. ValueError if they are no CLIP's, or a text has
  /// too many tokens.
  ImageClassifier classifier(const nn::StateDict& weights, const text::Tokenizer& tokenizer,
                             const std::vector<std::string>& texts) const;
};

/// A row for the task of saying what a picture shows as a vector: from [N, 3, H, W] to [N, features].
struct LOCKSTEP_API ImageEncoder {
  static constexpr std::string_view kTask = "image features";

  std::string name;
  Preprocessing preprocessing;
  std::string published_weights = {};  ///< For io::local_file.
  /// In f32 and evaluation mode. Throws ValueError or ShapeError if the weights are another network's.
  std::function<std::unique_ptr<nn::Layer>(const nn::StateDict& weights, Device device)> load;
};

/// A row of the registry. What a model is for is its alternative; a new task is a struct like the above and a row here.
using Model = std::variant<ImageClassifier, PromptableSegmenter, ObjectDetector, ImageTextModel, ImageEncoder>;

LOCKSTEP_API std::span<const Model> registry();
LOCKSTEP_API const std::string& name_of(const Model& model);
LOCKSTEP_API std::string_view task_of(const Model& model);

/// The row of that name and task, or null.
template <typename Row> const Row* find_model(std::string_view name) {
  for (const Model& model : registry()) {
    const Row* row = std::get_if<Row>(&model);
    if (row != nullptr && row->name == name) return row;
  }
  return nullptr;
}
/// The names of the rows of a task, one after the other.
template <typename Row> std::string names_of_models() {
  std::string names;
  for (const Model& model : registry()) {
    if (const Row* row = std::get_if<Row>(&model)) names += (names.empty() ? "" : ", ") + row->name;
  }
  return names;
}

/// The image classifiers of the registry.
LOCKSTEP_API std::span<const ImageClassifier> architectures();
/// The image classifier of that name or short name. Throws ValueError that lists the known names.
LOCKSTEP_API const ImageClassifier& architecture(std::string_view name);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
