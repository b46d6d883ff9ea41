// Pools over images. x [N, C, H, W] or [C, H, W].
#pragma once

#include <lockstep/nn/module.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

/// PyTorch: nn.MaxPool2d.
class LOCKSTEP_API MaxPool2d : public Layer {
 public:
  MaxPool2d(Module& parent, std::string name, const PoolOptions& options)
      : Layer(parent, std::move(name)), options_(options) {}
  Tensor forward(const Operand& x) const override { return max_pool2d(x, options_); }

 private:
  PoolOptions options_;
};

/// PyTorch: nn.AvgPool2d.
class LOCKSTEP_API AvgPool2d : public Layer {
 public:
  AvgPool2d(Module& parent, std::string name, const PoolOptions& options)
      : Layer(parent, std::move(name)), options_(options) {}
  Tensor forward(const Operand& x) const override { return avg_pool2d(x, options_); }

 private:
  PoolOptions options_;
};

/// To a fixed size: {1} or {1, 1} is the mean of the image.  PyTorch: nn.AdaptiveAvgPool2d.
class LOCKSTEP_API AdaptiveAvgPool2d : public Layer {
 public:
  AdaptiveAvgPool2d(Module& parent, std::string name, const Shape& output_size)
      : Layer(parent, std::move(name)), output_size_(output_size) {}
  Tensor forward(const Operand& x) const override { return adaptive_avg_pool2d(x, output_size_); }

 private:
  Shape output_size_;
};

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
