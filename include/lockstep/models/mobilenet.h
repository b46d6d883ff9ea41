// MobileNets: "MobileNetV2: Inverted Residuals and Linear Bottlenecks", Sandler et al., 2018, and "Searching for
// MobileNetV3", Howard et al., 2019. Keys as in torchvision.
#pragma once

#include <vector>

#include <lockstep/nn.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// Blocks of one width: `expansion` times as many channels inside, `stride` in the first.
struct MobileNetV2Stage {
  std::int64_t expansion = 1;
  std::int64_t channels = 0;
  std::int64_t blocks = 1;
  std::int64_t stride = 1;
};

struct LOCKSTEP_API MobileNetV2Options {
  std::int64_t stem = 32;
  std::vector<MobileNetV2Stage> stages{{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                       {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  std::int64_t last_channels = 1280;
};

/// x [N, 3, H, W] to logits [N, classes].
class LOCKSTEP_API MobileNetV2 : public nn::Layer {
 public:
  explicit MobileNetV2(std::int64_t classes, const MobileNetV2Options& options = {});
  Tensor forward(const Operand& x) const override;

  nn::Sequential features{*this, "features"};
  nn::Sequential classifier{*this, "classifier"};
};

/// A row of the tables of the paper: an inverted residual.
struct MobileNetV3Block {
  std::int64_t kernel = 3;
  std::int64_t expanded = 0;  ///< channels inside
  std::int64_t channels = 0;
  bool squeeze = false;    ///< whether channels are scaled by what their means say
  bool hardswish = false;  ///< else ReLU
  std::int64_t stride = 1;
};

struct LOCKSTEP_API MobileNetV3Options {
  std::int64_t stem = 16;
  std::vector<MobileNetV3Block> blocks;
  std::int64_t hidden = 0;  ///< of the classifier

  static MobileNetV3Options large();
  static MobileNetV3Options small();
};

/// x [N, 3, H, W] to logits [N, classes].
class LOCKSTEP_API MobileNetV3 : public nn::Layer {
 public:
  /// ValueError without blocks.
  MobileNetV3(std::int64_t classes, const MobileNetV3Options& options);
  Tensor forward(const Operand& x) const override;

  nn::Sequential features{*this, "features"};
  nn::Sequential classifier{*this, "classifier"};
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
