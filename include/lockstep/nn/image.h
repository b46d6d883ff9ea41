// Layers that change the size of images.
#pragma once

#include <lockstep/nn/op_layer.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

/// Constructed by (parent, name, InterpolateOptions).  PyTorch: nn.Upsample.
using Upsample = OpLayer<interpolate, InterpolateOptions>;
// Constructed by (parent, name, factor or groups).  PyTorch: nn.PixelShuffle, nn.PixelUnshuffle, nn.ChannelShuffle.
using PixelShuffle = OpLayer<pixel_shuffle, std::int64_t>;
using PixelUnshuffle = OpLayer<pixel_unshuffle, std::int64_t>;
using ChannelShuffle = OpLayer<channel_shuffle, std::int64_t>;

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
