// How a shadow compares kernels that its device does not have, or whose bits are another device's own.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "graph/kernel_case.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// A contraction in fast numerics, computed exactly, and with sums at either end of their bound (docs/numerics.md
/// section 13): results are right between those.
class FastProduct {
 public:
  using Run = std::function<void(const Kernel& kernel, const std::vector<BufferRef>& slots)>;
  /// `slots`: buffers of `backend` that hold what the kernel reads. `run` runs a kernel there.
  FastProduct(Backend& backend, const ContractionKernel& kernel, std::vector<BufferRef> slots, Run run);

  /// Writes the results of sums `bounds` bounds above the exact ones.
  void make(double bounds);

 private:
  std::vector<float> sums_of(const Input& a, const Input& b);

  Backend& backend_;
  const ContractionKernel& kernel_;
  std::vector<BufferRef> slots_;
  Run run_;
  int sums_slot_;
  std::vector<float> exact_, bound_;
};

/// What attention as one kernel makes, or its gradients, without what it keeps for them.
struct ComposedAttention {
  Bytes results;
  Bytes low, high;  ///< in fast numerics: the ends between which other results are right
};
/// The same composed on `device`. `operands`: the bytes behind query, key, value and, for gradients, upstream.
ComposedAttention composed_attention(Device device, const AttentionKernel& kernel, std::span<const Bytes> operands,
                                     double scale);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
