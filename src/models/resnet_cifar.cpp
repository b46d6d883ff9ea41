#include <lockstep/models/resnet_cifar.h>

#include <fmt/format.h>

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

// Option A: every second pixel of every second row, and zeros for the channels that are new, half on each side.
Tensor shortcut(const Tensor& x, std::int64_t added_channels, std::int64_t stride) {
  if (added_channels == 0 && stride == 1) return x;
  const Tensor sampled = x.slice(2, {.step = stride}).slice(3, {.step = stride});
  return pad(sampled, {0, 0, 0, 0, added_channels / 2, added_channels / 2});
}

class Block : public nn::Layer {
 public:
  Block(nn::Module& parent, std::string name, std::int64_t in, std::int64_t out, std::int64_t stride)
      : Layer(parent, std::move(name)),
        added_channels_(out - in),
        stride_(stride),
        conv1(*this, "conv1", in, out, {3}, {.stride = {stride}, .padding = {1}, .bias = false}),
        bn1(*this, "bn1", out),
        conv2(*this, "conv2", out, out, {3}, {.padding = {1}, .bias = false}),
        bn2(*this, "bn2", out) {}

  Tensor forward(const Operand& x) const override {
    const CallScope call(x.site());
    const Tensor residual = bn2(conv2(relu(bn1(conv1(x)))));
    return relu(residual + shortcut(x.tensor(), added_channels_, stride_));
  }

 private:
  std::int64_t added_channels_;
  std::int64_t stride_;
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
};

void add_stage(nn::Sequential& stage, int blocks, std::int64_t in, std::int64_t out, std::int64_t stride) {
  for (int i = 0; i < blocks; ++i) stage.add<Block>(i == 0 ? in : out, out, i == 0 ? stride : 1);
}

int checked_depth(int depth) {
  if (depth < 8 || (depth - 2) % 6 != 0) {
    throw ValueError(fmt::format("CifarResNet: depth {} is not 6n + 2 (8, 20, 32, 44, 56, 110)", depth));
  }
  return depth;
}

}  // namespace

CifarResNet::CifarResNet(std::int64_t classes, int depth) : linear(*this, "linear", 64, classes) {
  const int blocks = (checked_depth(depth) - 2) / 6;
  add_stage(layer1, blocks, 16, 16, 1);
  add_stage(layer2, blocks, 16, 32, 2);
  add_stage(layer3, blocks, 32, 64, 2);
}

Tensor CifarResNet::forward(const Operand& x) const {
  const CallScope call(x.site());
  Tensor y = relu(bn1(conv1(x)));
  y = layer3(layer2(layer1(y)));
  return linear(mean(y, {2, 3}));
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
