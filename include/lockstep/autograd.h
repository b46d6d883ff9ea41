// Gradients. Tensors made with `requires_grad` are tracked, and so is every float tensor computed from one; the
// gradients of a value with respect to tracked tensors are tensors like any other.
//
// Conventions are PyTorch's: relu'(0) = 0, abs'(0) = 0, equal operands of maximum and equal elements of amax share,
// values that come with indices (sort, topk) and max pools pass their gradient to the one element that was taken (a
// pool: the first of equal ones), rounding has gradient zero, std, norms and distances of 0 have gradient zero. Of
// several sources that are written to one place the one that stays has the gradient (PyTorch leaves this undefined).
#pragma once

#include <functional>
#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

struct GradientOptions {
  /// The upstream gradient, of the value's shape; without one the value must have one element.
  Tensor seed = {};
  /// Gradients are tracked in turn, so that they have gradients. Implies retain_graph.
  bool create_graph = false;
  /// Keeps what is needed to do it again.
  bool retain_graph = false;
  /// Gives zeros for tensors that the value does not depend on, instead of a ValueError.
  bool allow_unused = false;
};

/// d value / d each of `tensors`, in their shapes and dtypes. ValueError where value or a tensor is not tracked, the
/// value does not depend on one of them, or the graph was used up by an earlier call.  PyTorch: autograd.grad.
LOCKSTEP_API std::vector<Tensor> gradients(const Tensor& value, const std::vector<Tensor>& tensors,
                                           const GradientOptions& options = {}, CallSite site = {});
/// Adds the gradients to `grad` of every leaf below `value`.  PyTorch: Tensor.backward.
LOCKSTEP_API void backward(const Tensor& value, const GradientOptions& options = {}, CallSite site = {});

/// The value as a leaf whose gradient is wanted. Float tensors only (DTypeError).  PyTorch: requires_grad_.
LOCKSTEP_API Tensor requires_grad(const Tensor& tensor, CallSite site = {});
/// Whether the tensor is tracked.
LOCKSTEP_API bool is_tracked(const Tensor& tensor);
/// The value without its history.
LOCKSTEP_API Tensor detach(const Tensor& tensor, CallSite site = {});
/// What backward() has added up at a leaf; undefined before. ValueError if the tensor is no leaf.
LOCKSTEP_API Tensor grad(const Tensor& leaf, CallSite site = {});
LOCKSTEP_API void zero_grad(const Tensor& leaf, CallSite site = {});

/// Calls `hook` with the gradient of a tracked tensor when it is known; what it returns is used instead, unless that
/// is undefined.  PyTorch: Tensor.register_hook.
LOCKSTEP_API void register_hook(const Tensor& tensor, std::function<Tensor(const Tensor&)> hook, CallSite site = {});

/// Ops in its scope (of this thread) are not tracked.  PyTorch: no_grad.
class LOCKSTEP_API NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};

/// `value`, computed in any way from `inputs`, with a gradient of the caller's: `gradient(g)` returns one tensor per
/// input (undefined: no gradient).  PyTorch: autograd.Function.
LOCKSTEP_API Tensor custom_gradient(const Tensor& value, const std::vector<Tensor>& inputs,
                                    std::function<std::vector<Tensor>(const Tensor&)> gradient, CallSite site = {});

/// function(inputs), without keeping what its gradients read: they compute it again. Random draws inside are the same.
/// What else the function reads, like parameters of modules, has its gradients, too; it must read the same both times.
/// PyTorch: utils.checkpoint.
LOCKSTEP_API Tensor checkpoint(const std::function<Tensor(const std::vector<Tensor>&)>& function,
                               const std::vector<Tensor>& inputs, CallSite site = {});

}  // namespace v0
}  // namespace lockstep
