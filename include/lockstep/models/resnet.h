// ResNet for ImageNet: "Deep Residual Learning for Image Recognition", He et al., 2015. Keys as in torchvision.
#pragma once

#include <array>
#include <optional>

#include <lockstep/nn.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// x [N, 3, H, W] to logits [N, classes].
class LOCKSTEP_API ResNet : public nn::Layer {
 public:
  /// Depth 18, 34, 50, 101 or 152. Throws ValueError for another.
  ResNet(std::int64_t classes, int depth);
  Tensor forward(const Operand& x) const override;

 private:
  void add_stage(nn::Sequential& stage, std::int64_t blocks, std::int64_t channels, std::int64_t stride);

  bool bottleneck_;
  std::int64_t channels_ = 64;

 public:
  nn::Conv2d conv1{*this, "conv1", 3, 64, {7}, {.stride = {2}, .padding = {3}, .bias = false}};
  nn::BatchNorm2d bn1{*this, "bn1", 64};
  nn::Sequential layer1{*this, "layer1"};
  nn::Sequential layer2{*this, "layer2"};
  nn::Sequential layer3{*this, "layer3"};
  nn::Sequential layer4{*this, "layer4"};
  std::optional<nn::Linear> fc;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
