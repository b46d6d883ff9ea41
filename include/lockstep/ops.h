// The ops on tensors. Names and meaning follow PyTorch; docs/numerics.md says what is computed to the bit.
//
// All ops check shapes, dtypes and devices at the call: ShapeError, DTypeError, DeviceError and ValueError name the
// operands, the fix and the caller. Broadcasting is NumPy's. There is no silent promotion between tensors of different
// dtypes; scalars take the type of the tensor beside them. f16 and bf16 compute in f32 and round once per op.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <lockstep/random.h>
#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

// --- creation -------------------------------------------------------------------------------------------------------

LOCKSTEP_API Tensor full(const Shape& shape, double value, TensorOptions options = {}, CallSite site = {});
LOCKSTEP_API Tensor zeros(const Shape& shape, TensorOptions options = {}, CallSite site = {});
LOCKSTEP_API Tensor ones(const Shape& shape, TensorOptions options = {}, CallSite site = {});
LOCKSTEP_API Tensor full_like(const Tensor& like, double value, CallSite site = {});
LOCKSTEP_API Tensor zeros_like(const Tensor& like, CallSite site = {});
LOCKSTEP_API Tensor ones_like(const Tensor& like, CallSite site = {});
/// start, start + step, ... below stop (above, for a negative step). Element i is start + i * step.
LOCKSTEP_API Tensor arange(double start, double stop, double step = 1, TensorOptions options = {.dtype = DType::i64},
                           CallSite site = {});

// --- elementwise ----------------------------------------------------------------------------------------------------

LOCKSTEP_API Tensor neg(const Operand& a);
LOCKSTEP_API Tensor abs(const Operand& a);
/// -1, 0 or 1; NaN stays NaN.
LOCKSTEP_API Tensor sign(const Operand& a);
LOCKSTEP_API Tensor relu(const Operand& a);
LOCKSTEP_API Tensor floor(const Operand& a);
LOCKSTEP_API Tensor ceil(const Operand& a);
LOCKSTEP_API Tensor trunc(const Operand& a);
/// Halves to even.
LOCKSTEP_API Tensor round(const Operand& a);
LOCKSTEP_API Tensor sqrt(const Operand& a);
LOCKSTEP_API Tensor rsqrt(const Operand& a);
LOCKSTEP_API Tensor reciprocal(const Operand& a);
LOCKSTEP_API Tensor square(const Operand& a);
LOCKSTEP_API Tensor exp(const Operand& a);
LOCKSTEP_API Tensor log(const Operand& a);
LOCKSTEP_API Tensor sin(const Operand& a);
LOCKSTEP_API Tensor cos(const Operand& a);
LOCKSTEP_API Tensor tanh(const Operand& a);
LOCKSTEP_API Tensor sigmoid(const Operand& a);
LOCKSTEP_API Tensor erf(const Operand& a);
/// x * Phi(x).  PyTorch: gelu(approximate='none').
LOCKSTEP_API Tensor gelu(const Operand& a);
/// The tanh approximation.  PyTorch: gelu(approximate='tanh').
LOCKSTEP_API Tensor gelu_tanh(const Operand& a);
/// x * sigmoid(x).
LOCKSTEP_API Tensor silu(const Operand& a);
LOCKSTEP_API Tensor leaky_relu(const Operand& a, double negative_slope = 0.01);
/// Absent bounds do not clamp. NaN stays NaN.
LOCKSTEP_API Tensor clamp(const Operand& a, std::optional<double> min, std::optional<double> max);
LOCKSTEP_API Tensor isnan(const Operand& a);
LOCKSTEP_API Tensor isfinite(const Operand& a);
LOCKSTEP_API Tensor logical_not(const Operand& a);

LOCKSTEP_API Tensor add(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor sub(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor mul(const Operand& a, const Operand& b);
/// True division of floats. Integers: DTypeError that names the cast.
LOCKSTEP_API Tensor div(const Operand& a, const Operand& b);
/// NaN wins.
LOCKSTEP_API Tensor maximum(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor minimum(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor eq(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor ne(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor lt(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor le(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor gt(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor ge(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor bitwise_and(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor bitwise_or(const Operand& a, const Operand& b);
LOCKSTEP_API Tensor bitwise_xor(const Operand& a, const Operand& b);
/// b where the bool tensor `condition` holds, else c. Keeps bits.
LOCKSTEP_API Tensor where(const Operand& condition, const Operand& b, const Operand& c);
/// `value` where the bool tensor `mask` holds.
LOCKSTEP_API Tensor masked_fill(const Operand& a, const Operand& mask, double value);

LOCKSTEP_API Tensor operator-(const Tensor& a);
inline Tensor operator+(const Operand& a, const Operand& b) { return add(a, b); }
inline Tensor operator-(const Operand& a, const Operand& b) { return sub(a, b); }
inline Tensor operator*(const Operand& a, const Operand& b) { return mul(a, b); }
inline Tensor operator/(const Operand& a, const Operand& b) { return div(a, b); }
inline Tensor operator<(const Operand& a, const Operand& b) { return lt(a, b); }
inline Tensor operator<=(const Operand& a, const Operand& b) { return le(a, b); }
inline Tensor operator>(const Operand& a, const Operand& b) { return gt(a, b); }
inline Tensor operator>=(const Operand& a, const Operand& b) { return ge(a, b); }
inline Tensor operator==(const Operand& a, const Operand& b) { return eq(a, b); }
inline Tensor operator!=(const Operand& a, const Operand& b) { return ne(a, b); }

// --- reductions -----------------------------------------------------------------------------------------------------
// `dims` lists the reduced dimensions, negative ones from the end; none: all. bool and integers sum to i64.

LOCKSTEP_API Tensor sum(const Operand& a, const Shape& dims = {}, bool keepdim = false);
LOCKSTEP_API Tensor prod(const Operand& a, const Shape& dims = {}, bool keepdim = false);
LOCKSTEP_API Tensor mean(const Operand& a, const Shape& dims = {}, bool keepdim = false);
/// Two passes; divides by max(0, n - correction).  PyTorch: var, std.
LOCKSTEP_API Tensor var(const Operand& a, const Shape& dims = {}, bool keepdim = false, double correction = 1);
LOCKSTEP_API Tensor std(const Operand& a, const Shape& dims = {}, bool keepdim = false, double correction = 1);
/// Euclidean norm.
LOCKSTEP_API Tensor norm(const Operand& a, const Shape& dims = {}, bool keepdim = false);
/// NaN wins. Of nothing: ShapeError.
LOCKSTEP_API Tensor amax(const Operand& a, const Shape& dims = {}, bool keepdim = false);
LOCKSTEP_API Tensor amin(const Operand& a, const Shape& dims = {}, bool keepdim = false);
/// i64; the first of equal values; over all elements (in row-major order) if no dim is given.
LOCKSTEP_API Tensor argmax(const Operand& a, std::optional<int> dim = std::nullopt, bool keepdim = false);
LOCKSTEP_API Tensor argmin(const Operand& a, std::optional<int> dim = std::nullopt, bool keepdim = false);
/// Of bool tensors.
LOCKSTEP_API Tensor any(const Operand& a, const Shape& dims = {}, bool keepdim = false);
LOCKSTEP_API Tensor all(const Operand& a, const Shape& dims = {}, bool keepdim = false);
LOCKSTEP_API Tensor logsumexp(const Operand& a, const Shape& dims, bool keepdim = false);
LOCKSTEP_API Tensor softmax(const Operand& a, int dim);
LOCKSTEP_API Tensor log_softmax(const Operand& a, int dim);

// --- shape ----------------------------------------------------------------------------------------------------------

/// All but `dim` must be equal. Keeps bits.
LOCKSTEP_API Tensor cat(const std::vector<Tensor>& tensors, int dim = 0, CallSite site = {});
LOCKSTEP_API Tensor stack(const std::vector<Tensor>& tensors, int dim = 0, CallSite site = {});
/// Constant padding; `padding` is PyTorch's: pairs (before, after) from the last dimension on; negative crops.
LOCKSTEP_API Tensor pad(const Operand& a, const Shape& padding, double value = 0);
LOCKSTEP_API Tensor broadcast_to(const Operand& a, const Shape& shape);
/// Row-major elements in memory of their own.
LOCKSTEP_API Tensor contiguous(const Operand& a);

// --- contraction ----------------------------------------------------------------------------------------------------

/// PyTorch: matmul, with its rules for vectors and batches. Integers return i32 (i64 from i64), wrapping.
LOCKSTEP_API Tensor matmul(const Operand& a, const Operand& b);
/// x * weight^T + bias.  x [..., in], weight [out, in], bias [out].
LOCKSTEP_API Tensor linear(const Operand& x, const Operand& weight, const std::optional<Tensor>& bias = std::nullopt);

/// One value for all spatial dimensions, or one per dimension.
struct ConvOptions {
  Shape stride = {1};
  Shape padding = {0};
  Shape dilation = {1};
  std::int64_t groups = 1;
};
/// input [N, C, L], weight [O, C/groups, K], bias [O].
LOCKSTEP_API Tensor conv1d(const Operand& input, const Operand& weight, const std::optional<Tensor>& bias = std::nullopt,
                           const ConvOptions& options = {});
/// input [N, C, H, W], weight [O, C/groups, KH, KW], bias [O].
LOCKSTEP_API Tensor conv2d(const Operand& input, const Operand& weight, const std::optional<Tensor>& bias = std::nullopt,
                           const ConvOptions& options = {});
/// input [N, C, D, H, W], weight [O, C/groups, KD, KH, KW], bias [O].
LOCKSTEP_API Tensor conv3d(const Operand& input, const Operand& weight, const std::optional<Tensor>& bias = std::nullopt,
                           const ConvOptions& options = {});

// --- pooling and normalisation --------------------------------------------------------------------------------------

struct PoolOptions {
  Shape kernel;
  Shape stride = {};       ///< empty: the kernel
  Shape padding = {0};     ///< at most half the kernel; never wins a maximum
  Shape dilation = {1};    ///< max pools only
  bool ceil_mode = false;
  bool count_include_pad = true;  ///< average pools only
};
/// input [N, C, H, W] or [C, H, W] (1-d: one dimension less).
LOCKSTEP_API Tensor max_pool1d(const Operand& input, const PoolOptions& options);
LOCKSTEP_API Tensor max_pool2d(const Operand& input, const PoolOptions& options);
LOCKSTEP_API Tensor avg_pool1d(const Operand& input, const PoolOptions& options);
LOCKSTEP_API Tensor avg_pool2d(const Operand& input, const PoolOptions& options);
LOCKSTEP_API Tensor adaptive_avg_pool2d(const Operand& input, const Shape& output_size);

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

// --- looking inside -------------------------------------------------------------------------------------------------

/// The kernels that reading these tensors would run now, one line each, e.g. "row[64x4096] max sub exp sum div".
LOCKSTEP_API std::vector<std::string> plan(const std::vector<Tensor>& tensors);

}  // namespace v0
}  // namespace lockstep
