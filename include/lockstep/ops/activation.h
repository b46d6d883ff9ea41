// The activations of torch.nn.functional. They take float tensors of any shape and give the same dtype and shape,
// computed in f32 (f64 for f64) and rounded once; NaN stays NaN. DTypeError for other dtypes.
#pragma once

#include <optional>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

// --- rectifiers -----------------------------------------------------------------------------------------------------
/// max(x, 0); also of integers.
LOCKSTEP_API Tensor relu(const Operand& a);
/// min(max(x, 0), 6); also of integers.
LOCKSTEP_API Tensor relu6(const Operand& a);
/// x where x > 0, else x * negative_slope.
LOCKSTEP_API Tensor leaky_relu(const Operand& a, double negative_slope = 0.01);
/// x where x > 0, else weight * x. weight: one value, or one per channel (dimension 1 of x). ShapeError otherwise.
LOCKSTEP_API Tensor prelu(const Operand& a, const Tensor& weight);
/// The evaluation form: leaky_relu with the mean of the bounds.  PyTorch: rrelu(training=False).
LOCKSTEP_API Tensor rrelu(const Operand& a, double lower = 1.0 / 8, double upper = 1.0 / 3);
/// min(max(x, min), max); also of integers. ValueError if min > max.
LOCKSTEP_API Tensor hardtanh(const Operand& a, double min = -1, double max = 1);
/// x where x > threshold (or NaN), else value; also of integers. Keeps bits.
LOCKSTEP_API Tensor threshold(const Operand& a, double threshold, double value);

// --- exponential forms ----------------------------------------------------------------------------------------------
/// x where x > 0, else alpha * (e^x - 1).
LOCKSTEP_API Tensor elu(const Operand& a, double alpha = 1);
/// scale * elu(x, alpha) with the fixed constants of "Self-normalizing neural networks".
LOCKSTEP_API Tensor selu(const Operand& a);
/// x where x > 0, else alpha * (e^(x / alpha) - 1). ValueError if alpha is 0.
LOCKSTEP_API Tensor celu(const Operand& a, double alpha = 1);
/// log(1 + e^(beta x)) / beta, and x itself where beta x > threshold.
LOCKSTEP_API Tensor softplus(const Operand& a, double beta = 1, double threshold = 20);
/// log(sigmoid(x)) = min(x, 0) - log(1 + e^-|x|).  PyTorch: logsigmoid.
LOCKSTEP_API Tensor logsigmoid(const Operand& a);
/// x * tanh(softplus(x)).
LOCKSTEP_API Tensor mish(const Operand& a);

// --- sigmoid forms --------------------------------------------------------------------------------------------------
LOCKSTEP_API Tensor sigmoid(const Operand& a);
/// log(x / (1 - x)); with eps, x is first clamped to [eps, 1 - eps].
LOCKSTEP_API Tensor logit(const Operand& a, std::optional<double> eps = std::nullopt);
/// x * sigmoid(x).
LOCKSTEP_API Tensor silu(const Operand& a);
/// x * Phi(x).  PyTorch: gelu(approximate='none').
LOCKSTEP_API Tensor gelu(const Operand& a);
/// The tanh approximation.  PyTorch: gelu(approximate='tanh').
LOCKSTEP_API Tensor gelu_tanh(const Operand& a);
/// min(max(x + 3, 0), 6) / 6.
LOCKSTEP_API Tensor hardsigmoid(const Operand& a);
/// x * min(max(x + 3, 0), 6) / 6.
LOCKSTEP_API Tensor hardswish(const Operand& a);

// --- shrinking ------------------------------------------------------------------------------------------------------
/// 0 where |x| <= lambda, else x.
LOCKSTEP_API Tensor hardshrink(const Operand& a, double lambda = 0.5);
/// x moved towards 0 by lambda, 0 where |x| <= lambda. ValueError if lambda < 0.
LOCKSTEP_API Tensor softshrink(const Operand& a, double lambda = 0.5);
/// x - tanh(x).
LOCKSTEP_API Tensor tanhshrink(const Operand& a);
/// x / (1 + |x|).
LOCKSTEP_API Tensor softsign(const Operand& a);

// --- gates ----------------------------------------------------------------------------------------------------------
/// The first half along `dim` times the sigmoid of the second. ShapeError if the size is odd.
LOCKSTEP_API Tensor glu(const Operand& a, int dim = -1);
/// relu(gate) * value; the operands broadcast.
LOCKSTEP_API Tensor reglu(const Operand& gate, const Operand& value);
/// gelu(gate) * value.
LOCKSTEP_API Tensor geglu(const Operand& gate, const Operand& value);
/// silu(gate) * value, as in language models' feed-forward layers.
LOCKSTEP_API Tensor swiglu(const Operand& gate, const Operand& value);

}  // namespace v0
}  // namespace lockstep
