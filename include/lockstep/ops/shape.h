// Views and what is made of them: no arithmetic, every bit is kept. Many are members of Tensor.
#pragma once

#include <optional>
#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

/// All but `dim` must be equal. Keeps bits.
LOCKSTEP_API Tensor cat(const std::vector<Tensor>& tensors, int dim = 0, CallSite site = {});
LOCKSTEP_API Tensor stack(const std::vector<Tensor>& tensors, int dim = 0, CallSite site = {});
/// Constant padding; `padding` is PyTorch's: pairs (before, after) from the last dimension on; negative crops.
LOCKSTEP_API Tensor pad(const Operand& a, const Shape& padding, double value = 0);
LOCKSTEP_API Tensor broadcast_to(const Operand& a, const Shape& shape);
/// Row-major elements in memory of their own.
LOCKSTEP_API Tensor contiguous(const Operand& a);

}  // namespace v0
}  // namespace lockstep
