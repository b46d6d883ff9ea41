// What normalisations share: checked parameters in the working dtype.
#pragma once

#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// A per-channel (or trailing) parameter: on the device of x, of x's dtype or `working`, of this shape; as `working`.
Tensor parameter(const char* label, const Tensor& value, const Tensor& x, const Shape& shape, DType working);

/// [C] as [C, 1, ...] so that it broadcasts over x [N, C, ...] with `rank` dimensions.
Tensor per_channel(const Tensor& value, int rank);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
