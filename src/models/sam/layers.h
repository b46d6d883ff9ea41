// Layers that the parts of Segment Anything share, and the cutting of pictures into windows. Internal.
#pragma once

#include <cstdint>
#include <string>

#include <lockstep/nn.h>

namespace lockstep {
inline namespace v0 {
namespace models {
namespace sam {

/// Normalises the channels of each pixel: x [N, C, H, W]. Its keys are those of a LayerNorm.
class LayerNorm2d : public nn::Layer {
 public:
  LayerNorm2d(nn::Module& parent, std::string name, std::int64_t channels);
  Tensor forward(const Operand& x) const override;

  nn::Parameter weight;
  nn::Parameter bias;
};

/// Linear layers with ReLU between them: keys layers.0 ... layers.<depth - 1>.
class Perceptron : public nn::Layer {
 public:
  Perceptron(nn::Module& parent, std::string name, std::int64_t in, std::int64_t hidden, std::int64_t out,
             std::int64_t depth);
  Tensor forward(const Operand& x) const override;

 private:
  nn::ModuleList<nn::Linear> layers_{*this, "layers"};
};

/// The two convolutions that bring an encoder's channels to those of the decoder: keys 0 ... 3 of `neck`.
void build_neck(nn::Sequential& neck, std::int64_t channels, std::int64_t out_channels);

/// [N, H, W, C] to windows [N, rows, columns, size, size, C]; zeros below and to the right fill the last ones.
Tensor to_windows(const Tensor& x, std::int64_t size);
/// The way back, without what was filled: [N, height, width, C].
Tensor from_windows(const Tensor& windows, std::int64_t height, std::int64_t width);

/// Throws ValueError, naming the module, unless `heads` divides `channels` and both are positive.
void check_heads(const std::string& path, std::int64_t channels, std::int64_t heads);

}  // namespace sam
}  // namespace models
}  // namespace v0
}  // namespace lockstep
