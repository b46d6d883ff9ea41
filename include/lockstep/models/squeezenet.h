// SqueezeNet 1.1: Iandola et al., 2016. Keys as in torchvision.
#pragma once

#include <lockstep/nn.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// x [N, 3, H, W] to logits [N, classes].
class LOCKSTEP_API SqueezeNet : public nn::Layer {
 public:
  explicit SqueezeNet(std::int64_t classes);
  Tensor forward(const Operand& x) const override;

  nn::Sequential features{*this, "features"};
  nn::Sequential classifier{*this, "classifier"};
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
