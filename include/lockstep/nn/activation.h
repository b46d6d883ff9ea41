// Layers without parameters that work element by element or along one dimension.
#pragma once

#include <lockstep/nn/module.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

/// PyTorch: nn.ReLU.
class LOCKSTEP_API ReLU : public Layer {
 public:
  using Layer::Layer;
  Tensor forward(const Operand& x) const override { return relu(x); }
};

struct GELUOptions {
  bool tanh = false;  ///< PyTorch: approximate='tanh'.
};

/// PyTorch: nn.GELU.
class LOCKSTEP_API GELU : public Layer {
 public:
  GELU(Module& parent, std::string name, GELUOptions options = {})
      : Layer(parent, std::move(name)), options_(options) {}
  Tensor forward(const Operand& x) const override { return options_.tanh ? gelu_tanh(x) : gelu(x); }

 private:
  GELUOptions options_;
};

/// PyTorch: nn.Softmax.
class LOCKSTEP_API Softmax : public Layer {
 public:
  Softmax(Module& parent, std::string name, int dim) : Layer(parent, std::move(name)), dim_(dim) {}
  Tensor forward(const Operand& x) const override { return softmax(x, dim_); }

 private:
  int dim_;
};

/// In training each element becomes 0 with probability p, and the others are scaled by 1 / (1 - p); in evaluation
/// nothing happens.  PyTorch: nn.Dropout.
class LOCKSTEP_API Dropout : public Layer {
 public:
  /// Throws ValueError unless 0 <= p <= 1.
  Dropout(Module& parent, std::string name, double p = 0.5);
  Tensor forward(const Operand& x) const override;

 private:
  double p_;
};

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
