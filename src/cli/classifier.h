// Pictures to classes: an architecture with its weights on one device. Used by `classify`, `demo` and `train`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/io.h>
#include <lockstep/models.h>

namespace lockstep {
inline namespace v0 {
namespace cli {

struct Prediction {
  std::vector<float> logits;
  std::vector<float> probabilities;

  /// The `count` classes of the largest logits, largest first; the smaller index of equal ones; NaN first, as argmax.
  std::vector<std::size_t> top(std::size_t count) const;
};

/// The networks that pictures can be given to: the registry's, and behind them those that a program brought along.
class Architectures {
 public:
  /// ValueError for a row without a name, a builder or a classifier, or with a name that is taken.
  explicit Architectures(std::vector<models::ImageClassifier> own = {});

  /// One after the other.
  std::string names() const;
  /// The one that --arch names. UsageError lists those that there are.
  const models::ImageClassifier& chosen(const std::string& name) const;

 private:
  std::vector<models::ImageClassifier> rows_;
};

class Classifier {
 public:
  Classifier(models::ImageClassifier architecture, const io::TensorMap& weights, Device device);

  std::size_t classes() const { return classes_; }
  /// The picture as the network takes it.
  io::Image fit(const io::Image& image) const { return models::fit(architecture_.preprocessing, image); }
  /// How many pictures to classify at a time. Results do not depend on it.
  std::size_t good_batch_size() const;
  std::vector<Prediction> classify(const std::vector<io::Image>& images) const;

 private:
  models::ImageClassifier architecture_;
  Device device_;
  std::unique_ptr<nn::Layer> model_;
  std::size_t classes_;
};

/// Lines of a file, without their ends, or the names in a JSON object {"0": name, ...}. Throws IoError, and FormatError
/// for an object without a name for each number.
std::vector<std::string> read_labels(const std::string& path);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
