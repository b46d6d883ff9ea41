// VGG: "Very Deep Convolutional Networks for Large-Scale Image Recognition", Simonyan and Zisserman, 2014. Keys as in
// torchvision.
#pragma once

#include <vector>

#include <lockstep/nn.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// VGG16, the paper's configuration D.
struct LOCKSTEP_API VGGOptions {
  static constexpr std::int64_t kPool = 0;  ///< in `channels`: a max pool that halves the picture
  std::vector<std::int64_t> channels{64,    64,  kPool, 128, 128,   kPool, 256, 256, 256,
                                     kPool, 512, 512,   512, kPool, 512,   512, 512, kPool};
  std::int64_t hidden = 4096;  ///< of the classifier
};

/// x [N, 3, H, W], from 32 x 32 on, to logits [N, classes]. Without batch norms.
class LOCKSTEP_API VGG : public nn::Layer {
 public:
  explicit VGG(std::int64_t classes, const VGGOptions& options = {});
  Tensor forward(const Operand& x) const override;

  nn::Sequential features{*this, "features"};
  nn::Sequential classifier{*this, "classifier"};
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
