// Normalisation layers.
#pragma once

#include <lockstep/nn/module.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

struct BatchNormOptions {
  double eps = 1e-5;
  bool affine = true;
};

/// Normalises each channel by its running statistics.  x [N, channels, H, W].  PyTorch: nn.BatchNorm2d.
/// Evaluation only: in training mode forward throws ValueError, as statistics of the batch are not supported yet.
class LOCKSTEP_API BatchNorm2d : public Layer {
 public:
  BatchNorm2d(Module& parent, std::string name, std::int64_t channels, BatchNormOptions options = {});
  Tensor forward(const Operand& x) const override;

  Parameter weight;  ///< [channels], ones; not defined without `affine`.
  Parameter bias;    ///< [channels], zeros; not defined without `affine`.
  Buffer running_mean;
  Buffer running_var;
  Buffer num_batches_tracked;  ///< i64 []; absent from checkpoints older than PyTorch 0.4.1.

 private:
  double eps_;
};

struct LayerNormOptions {
  double eps = 1e-5;
  bool affine = true;
  bool bias = true;
};

/// Normalises over the trailing dimensions `normalized_shape`.  PyTorch: nn.LayerNorm.
class LOCKSTEP_API LayerNorm : public Layer {
 public:
  LayerNorm(Module& parent, std::string name, const Shape& normalized_shape, LayerNormOptions options = {});
  Tensor forward(const Operand& x) const override;

  Parameter weight;
  Parameter bias;

 private:
  Shape normalized_shape_;
  double eps_;
};

struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;
};

/// Normalises over groups of channels.  x [N, channels, ...].  PyTorch: nn.GroupNorm.
class LOCKSTEP_API GroupNorm : public Layer {
 public:
  /// Throws ValueError unless `groups` divides `channels`.
  GroupNorm(Module& parent, std::string name, std::int64_t groups, std::int64_t channels,
            GroupNormOptions options = {});
  Tensor forward(const Operand& x) const override;

  Parameter weight;
  Parameter bias;

 private:
  std::int64_t groups_;
  double eps_;
};

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
