// What is in the parameters and buffers of a model: a line each, to see the layer that is dead, or has exploded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/dtype.h>
#include <lockstep/export.h>
#include <lockstep/nn/module.h>
#include <lockstep/shape.h>

namespace lockstep {
inline namespace v0 {

/// Of the finite elements; sums in f64 on the host, the same on every device.
struct TensorStats {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  double mean = 0;
  double deviation = 0;  ///< of the population
  double least = 0;
  double most = 0;
  std::int64_t zeros = 0;
  std::int64_t not_finite = 0;
  double gradient = -1;  ///< root of the mean square of the parameter's gradient; -1: it has none
};

/// What the tensors of a model hold.
struct ModelStats {
  std::vector<TensorStats> tensors;  ///< parameters and buffers in the order of the state dictionary
  /// A table for people.
  LOCKSTEP_API std::string to_string() const;
};
LOCKSTEP_API ModelStats stats(const nn::Module& model);

}  // namespace v0
}  // namespace lockstep
