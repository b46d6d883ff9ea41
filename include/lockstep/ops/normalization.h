// Normalisations. Variances take two passes (docs/numerics.md section 4).
#pragma once

#include <optional>
#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

/// Over the trailing dimensions `normalized_shape`.
LOCKSTEP_API Tensor layer_norm(const Operand& x, const Shape& normalized_shape,
                               const std::optional<Tensor>& weight = std::nullopt,
                               const std::optional<Tensor>& bias = std::nullopt, double eps = 1e-5);
LOCKSTEP_API Tensor rms_norm(const Operand& x, const Shape& normalized_shape,
                             const std::optional<Tensor>& weight = std::nullopt,
                             std::optional<double> eps = std::nullopt);
/// x [N, C, ...]; weight and bias [C].
LOCKSTEP_API Tensor group_norm(const Operand& x, std::int64_t groups, const std::optional<Tensor>& weight = std::nullopt,
                               const std::optional<Tensor>& bias = std::nullopt, double eps = 1e-5);
/// Evaluation form: x [N, C, ...], the others [C].  (x - mean) * (rsqrt(var + eps) * weight) + bias.
LOCKSTEP_API Tensor batch_norm(const Operand& x, const Tensor& running_mean, const Tensor& running_var,
                               const std::optional<Tensor>& weight = std::nullopt,
                               const std::optional<Tensor>& bias = std::nullopt, double eps = 1e-5);

}  // namespace v0
}  // namespace lockstep
