// Blocks that torchvision's networks share, under its names. Internal.
#pragma once

#include <cstdint>
#include <string>

#include <lockstep/nn.h>

namespace lockstep {
inline namespace v0 {
namespace models {
namespace vision {

using Activation = Tensor (*)(const Operand&);

struct ConvNormOptions {
  std::int64_t kernel = 3;  ///< padded by half of it
  std::int64_t stride = 1;
  std::int64_t groups = 1;
  Activation activation = nullptr;  ///< null: none
  nn::BatchNormOptions norm = {};
};

/// A convolution without bias, a batch norm and an activation: keys 0 and 1.  torchvision: Conv2dNormActivation.
class ConvNorm : public nn::Layer {
 public:
  ConvNorm(nn::Module& parent, std::string name, std::int64_t in, std::int64_t out, const ConvNormOptions& options);
  Tensor forward(const Operand& x) const override;

 private:
  Activation activation_;
  nn::Conv2d conv;
  nn::BatchNorm2d norm;
};

/// Scales channels by what their means say: keys fc1 and fc2.  torchvision: SqueezeExcitation.
class SqueezeExcitation : public nn::Layer {
 public:
  SqueezeExcitation(nn::Module& parent, std::string name, std::int64_t channels, std::int64_t squeezed,
                    Activation activation, Activation gate);
  Tensor forward(const Operand& x) const override;

 private:
  Activation activation_;
  Activation gate_;
  nn::Conv2d fc1;
  nn::Conv2d fc2;
};

/// A `block`, and what it is given added where the shape stays. Keys block.*.
class ResidualBlock : public nn::Layer {
 public:
  ResidualBlock(nn::Module& parent, std::string name, bool residual);
  Tensor forward(const Operand& x) const override;

 private:
  bool residual_;

 protected:
  nn::Sequential block{*this, "block"};
};

/// The multiple of `divisor` next to `channels`, at least 90 % of it.  torchvision: _make_divisible.
std::int64_t divisible(double channels, std::int64_t divisor = 8);

}  // namespace vision
}  // namespace models
}  // namespace v0
}  // namespace lockstep
