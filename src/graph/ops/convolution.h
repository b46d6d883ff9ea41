// What convolutions and transposed convolutions share: checked options, and what follows the contraction.
#pragma once

#include "graph/ops/contraction.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// An option for each of `rank` spatial dimensions, from one value for all or one per dimension. ValueError.
Shape spatial(const char* what, const Shape& given, int rank, std::int64_t least, const std::vector<Shown>& shown);

/// Input, weight and bias of one dtype on one device and of the right ranks.
struct ConvOperands {
  Tensor input;  ///< with a batch dimension
  Tensor weight;
  std::optional<Tensor> bias;
  bool unbatched = false;
  std::vector<Shown> shown;
};
ConvOperands check_convolution(int rank, const Operand& input, const Operand& weight,
                               const std::optional<Tensor>& bias);

/// How a convolution's windows lie, per spatial dimension.
struct Windows {
  Shape stride, dilation;
  Shape before;  ///< padding before the input
};
/// Whether a convolution of `input` is one in fast numerics whose results lie channels last. DeviceError where the
/// device or a library has no convolutions in fast numerics.
bool is_fast_convolution(const Tensor& input, std::int64_t groups);
/// [N, ..., C] as [N, C, ...].
Tensor channels_first(const Tensor& y);

/// Gradients of y = convolution(input, weight) in the dtype of `g` [N, O, out...]: contractions in the order of
/// docs/numerics.md section 6.
Tensor conv_input_gradient(const Tensor& g, const Tensor& weight, const Shape& input_shape, const Windows& windows,
                           std::int64_t groups);
Tensor conv_weight_gradient(const Tensor& g, const Tensor& input, const Shape& weight_shape, const Windows& windows,
                            std::int64_t groups);
/// The convolution of input [N, C, ...] with weight [O, C/G, ...] whose output has the spatial sizes `output`, whatever
/// padding after the input that takes, in the accumulation dtype; in fast numerics rounded to the input's.
Tensor convolve(const Tensor& input, const Tensor& weight, const Shape& output, const Windows& windows,
                std::int64_t groups);

/// y [N, O, ...] + bias [O] as one more rounding.
Tensor with_bias(const Tensor& y, const std::optional<Tensor>& bias);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
