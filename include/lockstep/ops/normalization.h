// Normalisations. Variances take two passes (docs/numerics.md sections 4 and 7).
//
// x is a float tensor (DTypeError); the result has its shape and dtype. f16 and bf16 compute in f32 and round once;
// parameters and statistics have the dtype of x or f32. Shapes that do not fit are ShapeErrors.
#pragma once

#include <optional>
#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

/// Over the trailing dimensions `normalized_shape`; weight and bias have that shape.  PyTorch: layer_norm.
LOCKSTEP_API Tensor layer_norm(const Operand& x, const Shape& normalized_shape,
                               const std::optional<Tensor>& weight = std::nullopt,
                               const std::optional<Tensor>& bias = std::nullopt, double eps = 1e-5);
/// x * rsqrt(mean(x^2) + eps) * weight; an absent eps is the machine epsilon of x's dtype.  PyTorch: rms_norm.
LOCKSTEP_API Tensor rms_norm(const Operand& x, const Shape& normalized_shape,
                             const std::optional<Tensor>& weight = std::nullopt,
                             std::optional<double> eps = std::nullopt);
/// x [N, C, ...]; weight and bias [C]; the groups divide C.  PyTorch: group_norm.
LOCKSTEP_API Tensor group_norm(const Operand& x, std::int64_t groups,
                               const std::optional<Tensor>& weight = std::nullopt,
                               const std::optional<Tensor>& bias = std::nullopt, double eps = 1e-5);
/// Evaluation form: x [N, C, ...], the others [C].  (x - mean) * (rsqrt(var + eps) * weight) + bias.
/// PyTorch: batch_norm(training=False).
LOCKSTEP_API Tensor batch_norm(const Operand& x, const Tensor& running_mean, const Tensor& running_var,
                               const std::optional<Tensor>& weight = std::nullopt,
                               const std::optional<Tensor>& bias = std::nullopt, double eps = 1e-5);

/// What training gives. Running statistics are defined if they were passed, in their own dtype.
struct BatchNormResult {
  Tensor output;
  Tensor mean;          ///< [C], of the batch
  Tensor variance;      ///< [C], of the batch, divided by n
  Tensor running_mean;  ///< old * (1 - momentum) + mean * momentum
  Tensor running_var;   ///< the same with the variance divided by n - 1
};
/// Training form, a pure function: x [N, C, ...], the others [C]. Normalises by the statistics of x over all but C, as
/// the evaluation form would with them. ValueError for a single value per channel.  PyTorch: batch_norm(training=True).
LOCKSTEP_API BatchNormResult batch_norm_training(const Operand& x, const std::optional<Tensor>& running_mean,
                                                 const std::optional<Tensor>& running_var,
                                                 const std::optional<Tensor>& weight = std::nullopt,
                                                 const std::optional<Tensor>& bias = std::nullopt,
                                                 double momentum = 0.1, double eps = 1e-5);

/// Each sample and channel by its own statistics: x [N, C, ...], weight and bias [C]. ValueError for a single position.
/// PyTorch: instance_norm.
LOCKSTEP_API Tensor instance_norm(const Operand& x, const std::optional<Tensor>& weight = std::nullopt,
                                  const std::optional<Tensor>& bias = std::nullopt, double eps = 1e-5);
/// What training gives. Running statistics are defined if they were passed, in their own dtype.
struct InstanceNormResult {
  Tensor output;
  Tensor running_mean;  ///< moved to the mean over the batch of the samples' means
  Tensor running_var;   ///< moved to the mean over the batch of the samples' variances (divided by n - 1)
};
/// The same with running statistics, which batch_norm's evaluation form then takes.
/// PyTorch: instance_norm(use_input_stats=True).
LOCKSTEP_API InstanceNormResult instance_norm_training(const Operand& x, const std::optional<Tensor>& running_mean,
                                                       const std::optional<Tensor>& running_var,
                                                       const std::optional<Tensor>& weight = std::nullopt,
                                                       const std::optional<Tensor>& bias = std::nullopt,
                                                       double momentum = 0.1, double eps = 1e-5);

struct LocalResponseNormOptions {
  double alpha = 1e-4;
  double beta = 0.75;
  double k = 1;
};
/// x / (k + alpha / size * sum of the squares of `size` neighbouring channels)^beta; x [N, C, ...]. ValueError for a
/// size below 1.  PyTorch: local_response_norm.
LOCKSTEP_API Tensor local_response_norm(const Operand& x, std::int64_t size,
                                        const LocalResponseNormOptions& options = {});
/// x / max(||x||_p, eps) along `dim`; p is 1, 2 or infinity (ValueError).  PyTorch: normalize.
LOCKSTEP_API Tensor normalize(const Operand& x, double p = 2, int dim = 1, double eps = 1e-12);
/// v * (g / ||v||), the norm over all dimensions but `dim`; g has v's size there and 1 elsewhere.
/// PyTorch: nn.utils.parametrizations.weight_norm.
LOCKSTEP_API Tensor weight_norm(const Operand& v, const Operand& g, int dim = 0);

}  // namespace v0
}  // namespace lockstep
