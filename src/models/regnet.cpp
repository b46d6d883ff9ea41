#include <lockstep/models/regnet.h>

#include <cmath>

#include <fmt/format.h>

#include "models/vision_layers.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

using vision::ConvNorm;
using vision::ConvNormOptions;

struct RegNetStage {
  std::int64_t channels = 0;
  std::int64_t blocks = 0;
  std::int64_t group_width = 0;
};

// 1x1, 3x3 in groups, squeezing, 1x1: keys f.a, f.b, f.se, f.c; a projection "proj" where the shape changes.
class RegNetBlock : public nn::Layer {
 public:
  RegNetBlock(nn::Module& parent, std::string name, std::int64_t in, const RegNetStage& stage, std::int64_t stride,
              double squeeze)
      : Layer(parent, std::move(name)) {
    const std::int64_t out = stage.channels;
    if (in != out || stride != 1) {
      proj.emplace(*this, "proj", in, out, ConvNormOptions{.kernel = 1, .stride = stride});
    }
    a.emplace(f, "a", in, out, ConvNormOptions{.kernel = 1, .activation = relu});
    b.emplace(f, "b", out, out,
              ConvNormOptions{.stride = stride, .groups = out / stage.group_width, .activation = relu});
    if (squeeze > 0) {
      const auto squeezed = static_cast<std::int64_t>(std::nearbyint(squeeze * static_cast<double>(in)));
      se.emplace(f, "se", out, squeezed, relu, sigmoid);
    }
    c.emplace(f, "c", out, out, ConvNormOptions{.kernel = 1});
  }

  Tensor forward(const Operand& x) const override {
    const CallScope call(x.site());
    Tensor y = (*b)((*a)(x));
    if (se) y = (*se)(y);
    return relu((proj ? (*proj)(x) : x.tensor()) + (*c)(y));
  }

 private:
  std::optional<ConvNorm> proj;
  nn::Module f{*this, "f"};
  std::optional<ConvNorm> a;
  std::optional<ConvNorm> b;
  std::optional<vision::SqueezeExcitation> se;
  std::optional<ConvNorm> c;
};

// The paper's section 3.3; torchvision rounds likewise.
std::vector<RegNetStage> stages_of(const RegNetOptions& options) {
  if (options.depth < 1 || options.width < 8 || options.width % 8 != 0 || options.slope < 0 || options.step <= 1 ||
      options.group_width < 1 || options.stem < 1 || options.squeeze < 0) {
    throw ValueError(fmt::format("RegNet: depth {}, width {}, slope {}, step {}, group_width {} are no network",
                                 options.depth, options.width, options.slope, options.step, options.group_width));
  }
  std::vector<RegNetStage> stages;
  const auto first = static_cast<double>(options.width);
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < options.depth; ++i) {
    const double wanted = static_cast<double>(i) * options.slope + first;
    const double power = std::nearbyint(std::log(wanted / first) / std::log(options.step));
    const auto width = 8 * static_cast<std::int64_t>(std::nearbyint(first * std::pow(options.step, power) / 8));
    if (stages.empty() || width != last) {
      const std::int64_t group = std::min(options.group_width, width);
      stages.push_back({.channels = vision::divisible(static_cast<double>(width), group), .group_width = group});
    }
    last = width;
    ++stages.back().blocks;
  }
  return stages;
}

}  // namespace

RegNet::RegNet(std::int64_t classes, const RegNetOptions& options) {
  const std::vector<RegNetStage> stages = stages_of(options);
  std::int64_t channels = options.stem;
  stem_ = std::make_unique<ConvNorm>(*this, "stem", 3, channels, ConvNormOptions{.stride = 2, .activation = relu});
  for (std::size_t i = 0; i < stages.size(); ++i) {
    stages_.push_back(std::make_unique<nn::Module>(trunk_output, fmt::format("block{}", i + 1)));
    for (std::int64_t j = 0; j < stages[i].blocks; ++j) {
      blocks_.push_back(std::make_unique<RegNetBlock>(*stages_.back(), fmt::format("block{}-{}", i + 1, j), channels,
                                                      stages[i], j == 0 ? 2 : 1, options.squeeze));
      channels = stages[i].channels;
    }
  }
  fc.emplace(*this, "fc", channels, classes);
}

RegNet::~RegNet() = default;

Tensor RegNet::forward(const Operand& x) const {
  const CallScope call(x.site());
  Tensor y = (*stem_)(x);
  for (const auto& block : blocks_) y = (*block)(y);
  return (*fc)(mean(y, {2, 3}));
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
