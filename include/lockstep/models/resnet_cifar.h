// ResNet for CIFAR-10: section 4.2 of "Deep Residual Learning for Image Recognition", He et al., 2015.
#pragma once

#include <lockstep/nn.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// x [N, 3, 32, 32] to logits [N, classes]. Shortcuts are option A: they have no parameters.
class LOCKSTEP_API CifarResNet : public nn::Layer {
 public:
  /// Depth 6n + 2: 8, 20, 32, 44, 56, 110. Throws ValueError for another.
  CifarResNet(std::int64_t classes, int depth);
  Tensor forward(const Operand& x) const override;

  nn::Conv2d conv1{*this, "conv1", 3, 16, {3}, {.padding = {1}, .bias = false}};
  nn::BatchNorm2d bn1{*this, "bn1", 16};
  nn::Sequential layer1{*this, "layer1"};
  nn::Sequential layer2{*this, "layer2"};
  nn::Sequential layer3{*this, "layer3"};
  nn::Linear linear;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
