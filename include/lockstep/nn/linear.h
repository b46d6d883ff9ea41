// Layers that multiply by a matrix.
#pragma once

#include <lockstep/nn/module.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

struct LinearOptions {
  bool bias = true;
};

/// x * weight^T + bias.  x [..., in_features]; weight [out_features, in_features]; bias [out_features].
/// PyTorch: nn.Linear.
class LOCKSTEP_API Linear : public Layer {
 public:
  /// Throws ShapeError if a size is negative.
  Linear(Module& parent, std::string name, std::int64_t in_features, std::int64_t out_features,
         LinearOptions options = {});
  Linear(std::int64_t in_features, std::int64_t out_features, LinearOptions options = {})
      : Linear(no_parent(), {}, in_features, out_features, options) {}
  Tensor forward(const Operand& x) const override;

  Parameter weight;
  Parameter bias;  ///< Not defined without the option.
};

/// y[..., o] = a^T weight[o] b + bias[o].  a [..., in1_features]; b [..., in2_features].  PyTorch: nn.Bilinear.
class LOCKSTEP_API Bilinear : public Module {
 public:
  Bilinear(Module& parent, std::string name, std::int64_t in1_features, std::int64_t in2_features,
           std::int64_t out_features, LinearOptions options = {});
  Bilinear(std::int64_t in1_features, std::int64_t in2_features, std::int64_t out_features, LinearOptions options = {})
      : Bilinear(no_parent(), {}, in1_features, in2_features, out_features, options) {}
  Tensor forward(const Operand& a, const Operand& b) const;
  Tensor operator()(const Operand& a, const Operand& b) const { return forward(a, b); }

  Parameter weight;  ///< [out_features, in1_features, in2_features]
  Parameter bias;    ///< [out_features]; not defined without the option.
};

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
