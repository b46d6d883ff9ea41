// ConvNeXt: "A ConvNet for the 2020s", Liu et al., 2022. Keys as in torchvision.
#pragma once

#include <array>

#include <lockstep/nn.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// ConvNeXt-T.
struct LOCKSTEP_API ConvNeXtOptions {
  std::array<std::int64_t, 4> channels{96, 192, 384, 768};
  std::array<std::int64_t, 4> blocks{3, 3, 9, 3};
};

/// x [N, 3, H, W], from 32 x 32 on, to logits [N, classes]. Training leaves no blocks out (stochastic depth), as
/// torchvision's does.
class LOCKSTEP_API ConvNeXt : public nn::Layer {
 public:
  explicit ConvNeXt(std::int64_t classes, const ConvNeXtOptions& options = {});
  ~ConvNeXt() override;
  Tensor forward(const Operand& x) const override;

  nn::Sequential features{*this, "features"};
  nn::Module classifier{*this, "classifier"};

 private:
  std::unique_ptr<nn::Layer> norm_;

 public:
  nn::Linear head;  ///< of the classifier, "2"
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
