// Normalisation layers.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include <lockstep/nn/module.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

struct BatchNormOptions {
  double eps = 1e-5;
  /// Share of a batch in the running statistics; none: they are the averages over all batches seen.
  std::optional<double> momentum = 0.1;
  bool affine = true;
  /// Without running statistics evaluation takes those of the batch, too.
  bool track_running_stats = true;
};

/// Normalises each channel: in training mode by the statistics of the batch, which then move the running ones, in
/// evaluation mode by the running statistics. What batch norms of all ranks share.
class LOCKSTEP_API BatchNorm : public Layer {
 public:
  /// In training mode sets the buffers. ShapeError for another rank, ValueError in training for a single value per
  /// channel.
  Tensor forward(const Operand& x) const override;

  Parameter weight;            ///< [channels], ones; not defined without `affine`.
  Parameter bias;              ///< [channels], zeros; not defined without `affine`.
  Buffer running_mean;         ///< Buffers are not defined without `track_running_stats`.
  Buffer running_var;          ///< unbiased
  Buffer num_batches_tracked;  ///< i64 []; absent from checkpoints older than PyTorch 0.4.1.

 protected:
  /// Inputs have from `least_rank` to `most_rank` dimensions.
  BatchNorm(Module& parent, std::string name, std::int64_t channels, const BatchNormOptions& options, int least_rank,
            int most_rank);

 private:
  struct Terms;
  Tensor inference(const Operand& x) const;

  double eps_;
  std::optional<double> momentum_;
  int least_rank_;
  int most_rank_;
  std::shared_ptr<Terms> terms_;  ///< what evaluation has computed of the weights alone
};

/// x [N, channels] or [N, channels, L].  PyTorch: nn.BatchNorm1d.
class LOCKSTEP_API BatchNorm1d : public BatchNorm {
 public:
  BatchNorm1d(Module& parent, std::string name, std::int64_t channels, BatchNormOptions options = {})
      : BatchNorm(parent, std::move(name), channels, options, 2, 3) {}
  explicit BatchNorm1d(std::int64_t channels, BatchNormOptions options = {})
      : BatchNorm1d(no_parent(), {}, channels, options) {}
};
/// x [N, channels, H, W].  PyTorch: nn.BatchNorm2d.
class LOCKSTEP_API BatchNorm2d : public BatchNorm {
 public:
  BatchNorm2d(Module& parent, std::string name, std::int64_t channels, BatchNormOptions options = {})
      : BatchNorm(parent, std::move(name), channels, options, 4, 4) {}
  explicit BatchNorm2d(std::int64_t channels, BatchNormOptions options = {})
      : BatchNorm2d(no_parent(), {}, channels, options) {}
};
/// x [N, channels, D, H, W].  PyTorch: nn.BatchNorm3d.
class LOCKSTEP_API BatchNorm3d : public BatchNorm {
 public:
  BatchNorm3d(Module& parent, std::string name, std::int64_t channels, BatchNormOptions options = {})
      : BatchNorm(parent, std::move(name), channels, options, 5, 5) {}
  explicit BatchNorm3d(std::int64_t channels, BatchNormOptions options = {})
      : BatchNorm3d(no_parent(), {}, channels, options) {}
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
  explicit LayerNorm(const Shape& normalized_shape, LayerNormOptions options = {})
      : LayerNorm(no_parent(), {}, normalized_shape, options) {}
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
  GroupNorm(std::int64_t groups, std::int64_t channels, GroupNormOptions options = {})
      : GroupNorm(no_parent(), {}, groups, channels, options) {}
  Tensor forward(const Operand& x) const override;

  Parameter weight;
  Parameter bias;

 private:
  std::int64_t groups_;
  double eps_;
};

struct RMSNormOptions {
  std::optional<double> eps = std::nullopt;  ///< absent: the machine epsilon of the input's dtype
  bool affine = true;
};

/// x / sqrt(mean(x^2) + eps) * weight over the trailing dimensions `normalized_shape`.  PyTorch: nn.RMSNorm.
class LOCKSTEP_API RMSNorm : public Layer {
 public:
  RMSNorm(Module& parent, std::string name, const Shape& normalized_shape, RMSNormOptions options = {});
  explicit RMSNorm(const Shape& normalized_shape, RMSNormOptions options = {})
      : RMSNorm(no_parent(), {}, normalized_shape, options) {}
  Tensor forward(const Operand& x) const override;

  Parameter weight;  ///< normalized_shape, ones; not defined without `affine`.

 private:
  Shape normalized_shape_;
  std::optional<double> eps_;
};

struct InstanceNormOptions {
  double eps = 1e-5;
  /// Share of a batch in the running statistics; none: they are the averages over all batches seen.
  std::optional<double> momentum = 0.1;
  bool affine = false;
  bool track_running_stats = false;
};

/// Normalises each channel of each sample: by its own statistics, or in evaluation mode by the running ones if they are
/// tracked. What instance norms of all ranks share.
class LOCKSTEP_API InstanceNorm : public Layer {
 public:
  /// In training mode sets the buffers, if there are any. ShapeError for another rank or number of channels.
  Tensor forward(const Operand& x) const override;

  Parameter weight;  ///< [channels], ones; not defined without `affine`.
  Parameter bias;    ///< [channels], zeros; not defined without `affine`.
  Buffer running_mean;
  Buffer running_var;
  Buffer num_batches_tracked;

 protected:
  InstanceNorm(Module& parent, std::string name, std::int64_t channels, const InstanceNormOptions& options,
               int spatial_dims);

 private:
  std::int64_t channels_;
  double eps_;
  std::optional<double> momentum_;
  int spatial_dims_;
};

/// x [N, channels, L] or [channels, L].  PyTorch: nn.InstanceNorm1d.
class LOCKSTEP_API InstanceNorm1d : public InstanceNorm {
 public:
  InstanceNorm1d(Module& parent, std::string name, std::int64_t channels, InstanceNormOptions options = {})
      : InstanceNorm(parent, std::move(name), channels, options, 1) {}
  explicit InstanceNorm1d(std::int64_t channels, InstanceNormOptions options = {})
      : InstanceNorm1d(no_parent(), {}, channels, options) {}
};
/// x [N, channels, H, W] or [channels, H, W].  PyTorch: nn.InstanceNorm2d.
class LOCKSTEP_API InstanceNorm2d : public InstanceNorm {
 public:
  InstanceNorm2d(Module& parent, std::string name, std::int64_t channels, InstanceNormOptions options = {})
      : InstanceNorm(parent, std::move(name), channels, options, 2) {}
  explicit InstanceNorm2d(std::int64_t channels, InstanceNormOptions options = {})
      : InstanceNorm2d(no_parent(), {}, channels, options) {}
};
/// x [N, channels, D, H, W] or [channels, D, H, W].  PyTorch: nn.InstanceNorm3d.
class LOCKSTEP_API InstanceNorm3d : public InstanceNorm {
 public:
  InstanceNorm3d(Module& parent, std::string name, std::int64_t channels, InstanceNormOptions options = {})
      : InstanceNorm(parent, std::move(name), channels, options, 3) {}
  explicit InstanceNorm3d(std::int64_t channels, InstanceNormOptions options = {})
      : InstanceNorm3d(no_parent(), {}, channels, options) {}
};

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
