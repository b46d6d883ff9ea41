// Bounds for gradients, between backward() and step(). Parameters without a gradient are passed over.
#pragma once

#include <vector>

#include <lockstep/nn/module.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

struct ClipNormOptions {
  double norm_type = 2;  ///< any p > 0; infinity for the largest magnitude
  /// Reads the norm and throws ValueError, leaving the gradients as they are, if it is infinite or NaN.
  bool error_if_nonfinite = false;
};

/// Scales all gradients by max_norm / (norm + 1e-6) where that is below 1; `norm` is that of all of them as one vector.
/// Returns the norm before, f32 (f64 if a gradient is) []; 0 if there are no gradients. ValueError for a max_norm or
/// norm_type out of range.  PyTorch: nn.utils.clip_grad_norm_.
LOCKSTEP_API Tensor clip_grad_norm(std::vector<nn::Parameter> parameters, double max_norm, ClipNormOptions options = {},
                                   CallSite site = {});
/// Clamps every element of the gradients to [-value, value]. ValueError for a negative value.
/// PyTorch: nn.utils.clip_grad_value_.
LOCKSTEP_API void clip_grad_value(std::vector<nn::Parameter> parameters, double value, CallSite site = {});

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
