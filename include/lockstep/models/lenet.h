// LeNet-5: "Gradient-based learning applied to document recognition", LeCun et al., 1998, as it is built today: ReLU
// and max pools. Names as in PyTorch's tutorials.
#pragma once

#include <lockstep/nn.h>

namespace lockstep {
inline namespace v0 {
namespace models {

struct LeNetOptions {
  std::int64_t channels = 1;
  std::int64_t height = 28;
  std::int64_t width = 28;
};

/// x [N, channels, height, width] to logits [N, classes]. 28 x 28 pictures are padded to the 32 x 32 of the paper.
class LOCKSTEP_API LeNet : public nn::Layer {
 public:
  /// ValueError for pictures below 12 x 12, or sizes below 1.
  explicit LeNet(std::int64_t classes, const LeNetOptions& options = {});
  Tensor forward(const Operand& x) const override;

  nn::Conv2d conv1;
  nn::Conv2d conv2{*this, "conv2", 6, 16, {5}};
  nn::Linear fc1;
  nn::Linear fc2{*this, "fc2", 120, 84};
  nn::Linear fc3;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
