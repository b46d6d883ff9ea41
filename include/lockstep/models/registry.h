// The architectures that have a name: how to build them, what they take, and how many classes the published weights
// have. `lockstep classify --arch` knows exactly these.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <lockstep/models/preprocessing.h>
#include <lockstep/nn/module.h>

namespace lockstep {
inline namespace v0 {
namespace models {

struct LOCKSTEP_API Architecture {
  std::string name;
  Preprocessing preprocessing;
  std::int64_t classes = 0;  ///< Of the published weights.
  std::string classifier;    ///< The parameter whose first dimension is the number of classes.
  std::unique_ptr<nn::Layer> (*build)(std::int64_t classes, int depth) = nullptr;
  int depth = 0;

  /// A new model for images [N, 3, H, W] to logits [N, classes], with random weights, on the CPU, in training mode.
  std::unique_ptr<nn::Layer> create(std::int64_t class_count) const { return build(class_count, depth); }
  /// A model with these weights, in f32 and evaluation mode; the number of classes is that of the weights.
  /// Throws ValueError or ShapeError if they are another network's.
  std::unique_ptr<nn::Layer> load(const nn::StateDict& weights, Device device = {}, CallSite site = {}) const;
};

LOCKSTEP_API std::span<const Architecture> architectures();
/// Throws ValueError that lists the known names.
LOCKSTEP_API const Architecture& architecture(std::string_view name);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
