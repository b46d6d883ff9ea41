// What convolutions and transposed convolutions share: checked options, and what follows the contraction.
#pragma once

#include "graph/ops/contraction.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// An option for each of `rank` spatial dimensions, from one value for all or one per dimension. ValueError.
Shape spatial(const char* op, const char* what, const Shape& given, int rank, std::int64_t least,
              const std::vector<Shown>& shown, CallSite site);

/// Input, weight and bias of one dtype on one device and of the right ranks.
struct ConvOperands {
  Tensor input;  ///< with a batch dimension
  Tensor weight;
  std::optional<Tensor> bias;
  bool unbatched = false;
  std::vector<Shown> shown;
};
ConvOperands check_convolution(const char* op, int rank, const Operand& input, const Operand& weight,
                               const std::optional<Tensor>& bias);

/// y [N, O, ...] + bias [O] as one more rounding.
Tensor with_bias(const Tensor& y, const std::optional<Tensor>& bias, CallSite site);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
