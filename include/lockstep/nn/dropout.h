// Dropout layers. In training they draw from the calling thread's generator; in evaluation they do nothing.
#pragma once

#include <lockstep/nn/module.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

/// What dropout layers share.
class LOCKSTEP_API DropoutLayer : public Layer {
 public:
  double p() const { return p_; }

 protected:
  /// Throws ValueError unless 0 <= p <= 1.
  DropoutLayer(Module& parent, std::string name, double p);

 private:
  double p_;
};

/// A dropout layer of one of the ops in ops/dropout.h.
template <auto op> class DropoutOf : public DropoutLayer {
 public:
  DropoutOf(Module& parent, std::string name, double p = 0.5) : DropoutLayer(parent, std::move(name), p) {}
  explicit DropoutOf(double p = 0.5) : DropoutOf(no_parent(), {}, p) {}
  Tensor forward(const Operand& x) const override { return op(x, p(), training(), nullptr); }
};

/// In training each element becomes 0 with probability p, and the others are scaled by 1 / (1 - p).
/// PyTorch: nn.Dropout.
using Dropout = DropoutOf<dropout>;
// The same of whole channels [N, C, ...].  PyTorch: nn.Dropout1d and so on.
using Dropout1d = DropoutOf<dropout1d>;
using Dropout2d = DropoutOf<dropout2d>;
using Dropout3d = DropoutOf<dropout3d>;
/// Keeps the mean and variance of what SELU gives.  PyTorch: nn.AlphaDropout.
using AlphaDropout = DropoutOf<alpha_dropout>;
/// PyTorch: nn.FeatureAlphaDropout.
using FeatureAlphaDropout = DropoutOf<feature_alpha_dropout>;

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
