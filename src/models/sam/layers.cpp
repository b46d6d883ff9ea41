#include "models/sam/layers.h"

#include <fmt/format.h>

namespace lockstep {
inline namespace v0 {
namespace models {
namespace sam {

LayerNorm2d::LayerNorm2d(nn::Module& parent, std::string name, std::int64_t channels)
    : Layer(parent, std::move(name)),
      weight(*this, "weight", ones({channels})),
      bias(*this, "bias", zeros({channels})) {}

Tensor LayerNorm2d::forward(const Operand& x) const {
  const CallScope call(x.site());
  const Tensor last = x.tensor().permute({0, 2, 3, 1});
  return layer_norm(last, weight.shape(), weight.tensor(), bias.tensor(), 1e-6).permute({0, 3, 1, 2});
}

Perceptron::Perceptron(nn::Module& parent, std::string name, std::int64_t in, std::int64_t hidden, std::int64_t out,
                       std::int64_t depth)
    : Layer(parent, std::move(name)) {
  for (std::int64_t i = 0; i < depth; ++i) {
    layers_.add(i == 0 ? in : hidden, i == depth - 1 ? out : hidden);
  }
}

Tensor Perceptron::forward(const Operand& x) const {
  const CallScope call(x.site());
  Tensor y = layers_[0](x);
  for (std::size_t i = 1; i < layers_.size(); ++i) y = layers_[i](relu(y));
  return y;
}

void build_neck(nn::Sequential& neck, std::int64_t channels, std::int64_t out_channels) {
  neck.add<nn::Conv2d>(channels, out_channels, Shape{1}, nn::ConvLayerOptions{.bias = false});
  neck.add<LayerNorm2d>(out_channels);
  neck.add<nn::Conv2d>(out_channels, out_channels, Shape{3}, nn::ConvLayerOptions{.padding = {1}, .bias = false});
  neck.add<LayerNorm2d>(out_channels);
}

Tensor to_windows(const Tensor& x, std::int64_t size) {
  const std::int64_t below = (size - x.size(1) % size) % size;
  const std::int64_t right = (size - x.size(2) % size) % size;
  const Tensor filled = below + right > 0 ? pad(x, {0, 0, 0, right, 0, below}) : x;
  const Shape& shape = filled.shape();
  return filled.reshape({shape[0], shape[1] / size, size, shape[2] / size, size, shape[3]}).permute({0, 1, 3, 2, 4, 5});
}

Tensor from_windows(const Tensor& windows, std::int64_t height, std::int64_t width) {
  const Shape& shape = windows.shape();
  const Tensor whole =
      windows.permute({0, 1, 3, 2, 4, 5}).reshape({shape[0], shape[1] * shape[3], shape[2] * shape[4], shape[5]});
  return whole.narrow(1, 0, height).narrow(2, 0, width);
}

void check_heads(const std::string& path, std::int64_t channels, std::int64_t heads) {
  if (heads < 1 || channels < 1 || channels % heads != 0) {
    throw ValueError(fmt::format("{}: {} heads do not divide {} channels", path, heads, channels));
  }
}

}  // namespace sam
}  // namespace models
}  // namespace v0
}  // namespace lockstep
