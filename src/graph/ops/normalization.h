// What normalisations share: checked parameters in the working dtype.
#pragma once

#include <optional>

#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// A per-channel (or trailing) parameter: on the device of x, of x's dtype or `working`, of this shape; as `working`.
Tensor parameter(const char* label, const Tensor& value, const Tensor& x, const Shape& shape, DType working);

/// [C] as [C, 1, ...] so that it broadcasts over x [N, C, ...] with `rank` dimensions.
Tensor per_channel(const Tensor& value, int rank);

/// What batch_norm computes of its weights alone, [C, 1, ...].
struct BatchNormTerms {
  Tensor mean, scale;
  Tensor bias;  ///< undefined where there is none
};
/// For inputs like x; checked as in batch_norm.
BatchNormTerms batch_norm_terms(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                                const std::optional<Tensor>& weight, const std::optional<Tensor>& bias, double eps);
/// batch_norm(x) by terms for inputs of its device, dtype and rank.
Tensor batch_norm_by(const Tensor& x, const BatchNormTerms& terms);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
