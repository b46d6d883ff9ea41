// The plain network: fully connected layers.
#pragma once

#include <lockstep/nn.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// x [N, ...] of `features` numbers an example to logits [N, classes], through hidden layers of 256 and 128 with ReLU.
class LOCKSTEP_API MLP : public nn::Layer {
 public:
  /// ValueError for sizes below 1.
  MLP(std::int64_t classes, std::int64_t features);
  Tensor forward(const Operand& x) const override;

  nn::Linear fc1;
  nn::Linear fc2{*this, "fc2", 256, 128};
  nn::Linear fc3;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
