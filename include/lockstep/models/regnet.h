// RegNet: "Designing Network Design Spaces", Radosavovic et al., 2020. Keys as in torchvision.
#pragma once

#include <lockstep/nn.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// A network of the design space: widths of blocks grow linearly by `slope` from `width` on, and are rounded to powers
/// of `step`, so that blocks of one width are a stage.
struct LOCKSTEP_API RegNetOptions {
  std::int64_t depth = 0;
  std::int64_t width = 0;  ///< a multiple of 8
  double slope = 0;
  double step = 2;               ///< above 1
  std::int64_t group_width = 8;  ///< channels of a group of the 3x3 convolutions
  double squeeze = 0;            ///< RegNetY: 0.25. 0: channels are not scaled (RegNetX)
  std::int64_t stem = 32;
};

/// x [N, 3, H, W] to logits [N, classes].
class LOCKSTEP_API RegNet : public nn::Layer {
 public:
  /// ValueError for options outside their ranges.
  RegNet(std::int64_t classes, const RegNetOptions& options);
  ~RegNet() override;
  Tensor forward(const Operand& x) const override;

 private:
  std::unique_ptr<nn::Layer> stem_;
  nn::Module trunk_output{*this, "trunk_output"};
  std::vector<std::unique_ptr<nn::Module>> stages_;
  std::vector<std::unique_ptr<nn::Layer>> blocks_;

 public:
  std::optional<nn::Linear> fc;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
