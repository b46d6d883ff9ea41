// Convolutions and transposed convolutions over one to three dimensions.
#pragma once

#include <optional>

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
  /// `same` keeps sizes (stride 1), whatever `padding` says.  PyTorch: padding='same'.
  AutoPadding auto_padding = AutoPadding::given;
  /// What `padding` consists of; absent: zeros.  PyTorch: padding_mode.
  std::optional<PadMode> padding_mode = std::nullopt;
};

/// What convolutions of all ranks share. The kernel has one value for all spatial dimensions, or one per dimension.
/// ValueError for another number, for groups that do not divide both channel counts, and for `same` with a
/// padding_mode.
class LOCKSTEP_API ConvLayer : public Layer {
 public:
  Parameter weight;  ///< [out_channels, in_channels / groups, kernel...]
  Parameter bias;    ///< [out_channels]; not defined without the option.

 protected:
  ConvLayer(Module& parent, std::string name, int spatial_dims, std::int64_t in_channels, std::int64_t out_channels,
            const Shape& kernel, const ConvLayerOptions& options);
  /// x with the padding that is not zeros.
  Tensor padded(const Operand& x) const;
  ConvOptions options_;

 private:
  std::optional<PadMode> padding_mode_;
  Shape around_;  ///< pad's pairs
};

/// x [N, in_channels, L].  PyTorch: nn.Conv1d.
class LOCKSTEP_API Conv1d : public ConvLayer {
 public:
  Conv1d(Module& parent, std::string name, std::int64_t in_channels, std::int64_t out_channels, const Shape& kernel,
         const ConvLayerOptions& options = {});
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, const Shape& kernel, const ConvLayerOptions& options = {})
      : Conv1d(no_parent(), {}, in_channels, out_channels, kernel, options) {}
  Tensor forward(const Operand& x) const override;
};

/// x [N, in_channels, H, W].  PyTorch: nn.Conv2d.
class LOCKSTEP_API Conv2d : public ConvLayer {
 public:
  Conv2d(Module& parent, std::string name, std::int64_t in_channels, std::int64_t out_channels, const Shape& kernel,
         const ConvLayerOptions& options = {});
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, const Shape& kernel, const ConvLayerOptions& options = {})
      : Conv2d(no_parent(), {}, in_channels, out_channels, kernel, options) {}
  Tensor forward(const Operand& x) const override;
};

/// x [N, in_channels, D, H, W].  PyTorch: nn.Conv3d.
class LOCKSTEP_API Conv3d : public ConvLayer {
 public:
  Conv3d(Module& parent, std::string name, std::int64_t in_channels, std::int64_t out_channels, const Shape& kernel,
         const ConvLayerOptions& options = {});
  Conv3d(std::int64_t in_channels, std::int64_t out_channels, const Shape& kernel, const ConvLayerOptions& options = {})
      : Conv3d(no_parent(), {}, in_channels, out_channels, kernel, options) {}
  Tensor forward(const Operand& x) const override;
};

struct ConvTransposeLayerOptions {
  Shape stride = {1};
  Shape padding = {0};
  Shape output_padding = {0};
  std::int64_t groups = 1;
  bool bias = true;
  Shape dilation = {1};
};

/// What transposed convolutions of all ranks share. Errors as for ConvLayer.
class LOCKSTEP_API ConvTransposeLayer : public Layer {
 public:
  Parameter weight;  ///< [in_channels, out_channels / groups, kernel...]
  Parameter bias;    ///< [out_channels]; not defined without the option.

 protected:
  ConvTransposeLayer(Module& parent, std::string name, int spatial_dims, std::int64_t in_channels,
                     std::int64_t out_channels, const Shape& kernel, const ConvTransposeLayerOptions& options);
  ConvTransposeOptions options_;
};

/// x [N, in_channels, L].  PyTorch: nn.ConvTranspose1d.
class LOCKSTEP_API ConvTranspose1d : public ConvTransposeLayer {
 public:
  ConvTranspose1d(Module& parent, std::string name, std::int64_t in_channels, std::int64_t out_channels,
                  const Shape& kernel, const ConvTransposeLayerOptions& options = {});
  ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels, const Shape& kernel,
                  const ConvTransposeLayerOptions& options = {})
      : ConvTranspose1d(no_parent(), {}, in_channels, out_channels, kernel, options) {}
  Tensor forward(const Operand& x) const override;
};

/// x [N, in_channels, H, W].  PyTorch: nn.ConvTranspose2d.
class LOCKSTEP_API ConvTranspose2d : public ConvTransposeLayer {
 public:
  ConvTranspose2d(Module& parent, std::string name, std::int64_t in_channels, std::int64_t out_channels,
                  const Shape& kernel, const ConvTransposeLayerOptions& options = {});
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, const Shape& kernel,
                  const ConvTransposeLayerOptions& options = {})
      : ConvTranspose2d(no_parent(), {}, in_channels, out_channels, kernel, options) {}
  Tensor forward(const Operand& x) const override;
};

/// x [N, in_channels, D, H, W].  PyTorch: nn.ConvTranspose3d.
class LOCKSTEP_API ConvTranspose3d : public ConvTransposeLayer {
 public:
  ConvTranspose3d(Module& parent, std::string name, std::int64_t in_channels, std::int64_t out_channels,
                  const Shape& kernel, const ConvTransposeLayerOptions& options = {});
  ConvTranspose3d(std::int64_t in_channels, std::int64_t out_channels, const Shape& kernel,
                  const ConvTransposeLayerOptions& options = {})
      : ConvTranspose3d(no_parent(), {}, in_channels, out_channels, kernel, options) {}
  Tensor forward(const Operand& x) const override;
};

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
