// Convolutions over one and two dimensions.
#pragma once

#include <lockstep/nn/module.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

/// One value for all spatial dimensions, or one per dimension.
struct ConvLayerOptions {
  Shape stride = {1};
  Shape padding = {0};
  Shape dilation = {1};
  std::int64_t groups = 1;
  bool bias = true;
};

/// What convolutions of all ranks share.
class LOCKSTEP_API ConvLayer : public Layer {
 public:
  Parameter weight;  ///< [out_channels, in_channels / groups, kernel...]
  Parameter bias;    ///< [out_channels]; not defined without the option.

 protected:
  ConvLayer(Module& parent, std::string name, int spatial_dims, std::int64_t in_channels, std::int64_t out_channels,
            const Shape& kernel, const ConvLayerOptions& options);
  ConvOptions options_;
};

/// x [N, in_channels, L].  PyTorch: nn.Conv1d.
class LOCKSTEP_API Conv1d : public ConvLayer {
 public:
  /// Throws ValueError if the kernel has not one value or the groups do not divide both channel counts.
  Conv1d(Module& parent, std::string name, std::int64_t in_channels, std::int64_t out_channels, const Shape& kernel,
         const ConvLayerOptions& options = {});
  Tensor forward(const Operand& x) const override;
};

/// x [N, in_channels, H, W].  PyTorch: nn.Conv2d.
class LOCKSTEP_API Conv2d : public ConvLayer {
 public:
  /// Throws ValueError if the kernel has not one or two values or the groups do not divide both channel counts.
  Conv2d(Module& parent, std::string name, std::int64_t in_channels, std::int64_t out_channels, const Shape& kernel,
         const ConvLayerOptions& options = {});
  Tensor forward(const Operand& x) const override;
};

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
