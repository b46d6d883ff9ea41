// EfficientNet: "Rethinking Model Scaling for Convolutional Neural Networks", Tan and Le, 2019. Keys as in torchvision.
#pragma once

#include <vector>

#include <lockstep/nn.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// Blocks of one width: `expansion` times as many channels inside, `stride` in the first.
struct EfficientNetStage {
  std::int64_t expansion = 1;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t channels = 0;
  std::int64_t blocks = 1;
};

/// B0.
struct LOCKSTEP_API EfficientNetOptions {
  std::int64_t stem = 32;
  std::vector<EfficientNetStage> stages{{1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
                                        {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};
  double dropout = 0.2;
};

/// x [N, 3, H, W] to logits [N, classes]. Training leaves no blocks out (stochastic depth), as torchvision's does.
class LOCKSTEP_API EfficientNet : public nn::Layer {
 public:
  explicit EfficientNet(std::int64_t classes, const EfficientNetOptions& options = {});
  Tensor forward(const Operand& x) const override;

  nn::Sequential features{*this, "features"};
  nn::Sequential classifier{*this, "classifier"};
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
