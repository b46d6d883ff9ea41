// Pools as layers, by the number of spatial dimensions. x [N, C, spatial...] or [C, spatial...].
#pragma once

#include <lockstep/nn/op_layer.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

// Constructed by (parent, name, PoolOptions), e.g. nn::MaxPool2d pool{*this, "pool", {.kernel = {2}}}.
// PyTorch: nn.MaxPool1d, nn.AvgPool1d and so on.
using MaxPool1d = OpLayer<max_pool1d, PoolOptions>;
using MaxPool2d = OpLayer<max_pool2d, PoolOptions>;
using MaxPool3d = OpLayer<max_pool3d, PoolOptions>;
using AvgPool1d = OpLayer<avg_pool1d, PoolOptions>;
using AvgPool2d = OpLayer<avg_pool2d, PoolOptions>;
using AvgPool3d = OpLayer<avg_pool3d, PoolOptions>;

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
