#include <lockstep/models/resnet.h>

#include <fmt/format.h>

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

// Where the size or the number of channels changes, a 1x1 convolution fits the input to the sum.
void fit_shortcut(std::optional<nn::Sequential>& downsample, nn::Module& block, std::int64_t in, std::int64_t out,
                  std::int64_t stride) {
  if (stride == 1 && in == out) return;
  downsample.emplace(block, "downsample");
  downsample->add<nn::Conv2d>(in, out, Shape{1}, nn::ConvLayerOptions{.stride = {stride}, .bias = false});
  downsample->add<nn::BatchNorm2d>(out);
}

// Two 3x3 convolutions.
class BasicBlock : public nn::Layer {
 public:
  static constexpr std::int64_t kExpansion = 1;

  BasicBlock(nn::Module& parent, std::string name, std::int64_t in, std::int64_t channels, std::int64_t stride)
      : Layer(parent, std::move(name)),
        conv1(*this, "conv1", in, channels, {3}, {.stride = {stride}, .padding = {1}, .bias = false}),
        bn1(*this, "bn1", channels),
        conv2(*this, "conv2", channels, channels, {3}, {.padding = {1}, .bias = false}),
        bn2(*this, "bn2", channels) {
    fit_shortcut(downsample, *this, in, channels, stride);
  }

  Tensor forward(const Operand& x) const override {
    const CallScope call(x.site());
    const Tensor residual = bn2(conv2(relu(bn1(conv1(x)))));
    return relu(residual + (downsample ? (*downsample)(x) : x.tensor()));
  }

 private:
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
  std::optional<nn::Sequential> downsample;
};

// 1x1 to fewer channels, 3x3 (which bears the stride), 1x1 to four times as many.
class Bottleneck : public nn::Layer {
 public:
  static constexpr std::int64_t kExpansion = 4;

  Bottleneck(nn::Module& parent, std::string name, std::int64_t in, std::int64_t channels, std::int64_t stride)
      : Layer(parent, std::move(name)),
        conv1(*this, "conv1", in, channels, {1}, {.bias = false}),
        bn1(*this, "bn1", channels),
        conv2(*this, "conv2", channels, channels, {3}, {.stride = {stride}, .padding = {1}, .bias = false}),
        bn2(*this, "bn2", channels),
        conv3(*this, "conv3", channels, channels * kExpansion, {1}, {.bias = false}),
        bn3(*this, "bn3", channels * kExpansion) {
    fit_shortcut(downsample, *this, in, channels * kExpansion, stride);
  }

  Tensor forward(const Operand& x) const override {
    const CallScope call(x.site());
    const Tensor narrow = relu(bn2(conv2(relu(bn1(conv1(x))))));
    const Tensor residual = bn3(conv3(narrow));
    return relu(residual + (downsample ? (*downsample)(x) : x.tensor()));
  }

 private:
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
  nn::Conv2d conv3;
  nn::BatchNorm2d bn3;
  std::optional<nn::Sequential> downsample;
};

std::array<std::int64_t, 4> blocks_of(int depth) {
  switch (depth) {
    case 18: return {2, 2, 2, 2};
    case 34:
    case 50: return {3, 4, 6, 3};
    case 101: return {3, 4, 23, 3};
    case 152: return {3, 8, 36, 3};
    default: throw ValueError(fmt::format("ResNet: depth {} is none of 18, 34, 50, 101, 152", depth));
  }
}

}  // namespace

ResNet::ResNet(std::int64_t classes, int depth) : bottleneck_(depth >= 50) {
  const std::array<std::int64_t, 4> blocks = blocks_of(depth);
  add_stage(layer1, blocks[0], 64, 1);
  add_stage(layer2, blocks[1], 128, 2);
  add_stage(layer3, blocks[2], 256, 2);
  add_stage(layer4, blocks[3], 512, 2);
  fc.emplace(*this, "fc", channels_, classes);
}

void ResNet::add_stage(nn::Sequential& stage, std::int64_t blocks, std::int64_t channels, std::int64_t stride) {
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::int64_t block_stride = i == 0 ? stride : 1;
    if (bottleneck_) {
      stage.add<Bottleneck>(channels_, channels, block_stride);
      channels_ = channels * Bottleneck::kExpansion;
    } else {
      stage.add<BasicBlock>(channels_, channels, block_stride);
      channels_ = channels * BasicBlock::kExpansion;
    }
  }
}

Tensor ResNet::forward(const Operand& x) const {
  const CallScope call(x.site());
  Tensor y = relu(bn1(conv1(x)));
  y = max_pool2d(y, 3, {.stride = {2}, .padding = {1}});
  y = layer4(layer3(layer2(layer1(y))));
  return (*fc)(mean(y, {2, 3}));
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
