// Pools as layers, by the number of spatial dimensions. x [N, C, spatial...] or [C, spatial...].
#pragma once

#include <lockstep/nn/op_layer.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

/// A pool of windows.
template <auto op> class PoolLayer : public OpLayer<op, Shape, PoolOptions> {
 public:
  PoolLayer(Module& parent, std::string name, const Shape& kernel, const PoolOptions& options = {})
      : OpLayer<op, Shape, PoolOptions>(parent, std::move(name), kernel, options) {}
  explicit PoolLayer(const Shape& kernel, const PoolOptions& options = {})
      : PoolLayer(Module::no_parent(), {}, kernel, options) {}
};

// Constructed by ([parent, name,] kernel, PoolOptions), e.g. nn::MaxPool2d pool{*this, "pool", 3, {.stride = 2}}.
// PyTorch: nn.MaxPool1d, nn.AvgPool1d and so on.
using MaxPool1d = PoolLayer<max_pool1d>;
using MaxPool2d = PoolLayer<max_pool2d>;
using MaxPool3d = PoolLayer<max_pool3d>;
using AvgPool1d = PoolLayer<avg_pool1d>;
using AvgPool2d = PoolLayer<avg_pool2d>;
using AvgPool3d = PoolLayer<avg_pool3d>;

// To a fixed size: constructed by (parent, name, output_size); {1} is the mean or maximum of all positions, -1 keeps
// the input's size.  PyTorch: nn.AdaptiveAvgPool1d, nn.AdaptiveMaxPool1d and so on.
using AdaptiveAvgPool1d = OpLayer<adaptive_avg_pool1d, Shape>;
using AdaptiveAvgPool2d = OpLayer<adaptive_avg_pool2d, Shape>;
using AdaptiveAvgPool3d = OpLayer<adaptive_avg_pool3d, Shape>;
using AdaptiveMaxPool1d = OpLayer<adaptive_max_pool1d, Shape>;
using AdaptiveMaxPool2d = OpLayer<adaptive_max_pool2d, Shape>;
using AdaptiveMaxPool3d = OpLayer<adaptive_max_pool3d, Shape>;

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
