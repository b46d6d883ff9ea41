// What nodes gave that compute of weights alone (fixed.h), kept until a weight is another value.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "io/onnx/value.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

/// The values that the fixed nodes of one plan gave. From any thread.
class FixedValues {
 public:
  using Kept = std::shared_ptr<const std::vector<Value>>;

  /// Null unless they were made of the same sources: the same tensors, not equal ones.
  Kept find(std::span<const Value> sources) const;
  void keep(std::vector<Value> sources, Kept values);
  /// They are too large to be kept.
  void refuse();
  bool refused() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Value> sources_;
  Kept values_;
  bool refused_ = false;
};

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
