// Products and convolutions: sums of products in the order of docs/numerics.md section 6.
//
// All operands of a call have one dtype (DTypeError names the cast) and one device. Floats return their own dtype: f16
// and bf16 multiply and sum in f32 and round once. bool, i8, u8, i16 and i32 return i32, u32 and i64 return i64,
// wrapping. Sizes that do not fit are ShapeErrors, dimensions that do not exist IndexErrors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

/// PyTorch: matmul, with its rules for vectors and batches. Integers return i32 (i64 from i64), wrapping.
LOCKSTEP_API Tensor matmul(const Operand& a, const Operand& b);
/// x * weight^T + bias.  x [..., in], weight [out, in], bias [out].
LOCKSTEP_API Tensor linear(const Operand& x, const Operand& weight, const std::optional<Tensor>& bias = std::nullopt);

/// a [m, k], b [k, n]: [m, n].  PyTorch: mm.
LOCKSTEP_API Tensor mm(const Operand& a, const Operand& b);
/// a [batch, m, k], b [batch, k, n]: [batch, m, n].  PyTorch: bmm.
LOCKSTEP_API Tensor bmm(const Operand& a, const Operand& b);
/// a [m, k], b [k]: [m].  PyTorch: mv.
LOCKSTEP_API Tensor mv(const Operand& a, const Operand& b);
/// a [k], b [k]: [].  PyTorch: dot.
LOCKSTEP_API Tensor dot(const Operand& a, const Operand& b);
/// As dot, for there is no complex arithmetic.  PyTorch: vdot.
LOCKSTEP_API Tensor vdot(const Operand& a, const Operand& b);
/// Sums over the last dimension of both: a [..., k], b [..., k]. A scalar multiplies.  PyTorch: inner.
LOCKSTEP_API Tensor inner(const Operand& a, const Operand& b);
/// a [m], b [n]: [m, n], each element one product in the operands' dtype.  PyTorch: outer.
LOCKSTEP_API Tensor outer(const Operand& a, const Operand& b);

/// beta * input + alpha * product: two multiplications and a sum, each rounded (f16 and bf16 round only the result).
/// With beta 0 nothing of `input` is read. Integers take integral factors only (DTypeError).
struct Scales {
  double beta = 1;
  double alpha = 1;
};
/// a [m, k], b [k, n]; input broadcasts to [m, n].  PyTorch: addmm.
LOCKSTEP_API Tensor addmm(const Operand& input, const Operand& a, const Operand& b, Scales scales = {});
/// a [m, k], b [k]; input broadcasts to [m].  PyTorch: addmv.
LOCKSTEP_API Tensor addmv(const Operand& input, const Operand& a, const Operand& b, Scales scales = {});
/// a [batch, m, k], b [batch, k, n]; input broadcasts to [batch, m, n].  PyTorch: baddbmm.
LOCKSTEP_API Tensor baddbmm(const Operand& input, const Operand& a, const Operand& b, Scales scales = {});
/// The same, summed over the batch (k = (batch, k)); input broadcasts to [m, n].  PyTorch: addbmm.
LOCKSTEP_API Tensor addbmm(const Operand& input, const Operand& a, const Operand& b, Scales scales = {});
/// a [m], b [n]; input broadcasts to [m, n].  PyTorch: addr.
LOCKSTEP_API Tensor addr(const Operand& input, const Operand& a, const Operand& b, Scales scales = {});

/// Sums over the listed dimensions, paired in order; the result has the others of a, then those of b. k is in the order
/// of the lists. ValueError where the lists differ in length.  PyTorch: tensordot(dims=(dims_a, dims_b)).
LOCKSTEP_API Tensor tensordot(const Operand& a, const Operand& b, const Dims& dims_a, const Dims& dims_b);
/// The last `dims` dimensions of a with the first ones of b.  PyTorch: tensordot(dims=int).
LOCKSTEP_API Tensor tensordot(const Operand& a, const Operand& b, int dims = 2);
/// The Kronecker product, ranks up to 4; each element one product in the operands' dtype.  PyTorch: kron.
LOCKSTEP_API Tensor kron(const Operand& a, const Operand& b);
/// A chain of matrix products in the order that takes the fewest multiplications; the first and the last tensor may be
/// vectors. ValueError for fewer than two.  PyTorch: linalg.multi_dot.
LOCKSTEP_API Tensor multi_dot(const std::vector<Tensor>& tensors, CallSite site = {});
/// y[..., o] = sum_ij a[..., i] weight[o, i, j] b[..., j] + bias[o], summed over i first.  PyTorch: bilinear.
LOCKSTEP_API Tensor bilinear(const Operand& a, const Operand& b, const Operand& weight,
                             const std::optional<Tensor>& bias = std::nullopt);

/// Sums of products by labels, e.g. einsum("bij,bjk->bik", {a, b}). Labels are letters; a label that one operand
/// repeats is a diagonal; "..." stands for any further dimensions, which broadcast; without "->" the result has the
/// ellipsis and the labels that occur once, in alphabetical order (capitals first). Sizes of one label are equal or 1.
/// Operands are multiplied from left to right; a label that only one operand has and the result does not is summed (R)
/// before. k of each product is in the order of the left operand's labels. f16 and bf16 round only the result.
/// ValueError for an equation that makes no sense, ShapeError where it does not fit the tensors.  PyTorch: einsum.
LOCKSTEP_API Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands, CallSite site = {});

/// `given` takes the amounts of the options; `same` keeps sizes (stride 1; an odd element goes behind); `valid` is
/// none.
enum class AutoPadding : std::uint8_t { given, same, valid };

/// One value for all spatial dimensions, or one per dimension.
struct ConvOptions {
  Shape stride = {1};
  Shape padding = {0};
  Shape dilation = {1};
  std::int64_t groups = 1;
  Shape padding_after = {};  ///< elements behind the input, where they differ from `padding`
  AutoPadding auto_padding = AutoPadding::given;
};
/// input [N, C, L] or [C, L], weight [O, C/groups, K], bias [O].  PyTorch: conv1d.
LOCKSTEP_API Tensor conv1d(const Operand& input, const Operand& weight,
                           const std::optional<Tensor>& bias = std::nullopt, const ConvOptions& options = {});
/// input [N, C, H, W] or [C, H, W], weight [O, C/groups, KH, KW], bias [O].  PyTorch: conv2d.
LOCKSTEP_API Tensor conv2d(const Operand& input, const Operand& weight,
                           const std::optional<Tensor>& bias = std::nullopt, const ConvOptions& options = {});
/// input [N, C, D, H, W] or [C, D, H, W], weight [O, C/groups, KD, KH, KW], bias [O].  PyTorch: conv3d.
LOCKSTEP_API Tensor conv3d(const Operand& input, const Operand& weight,
                           const std::optional<Tensor>& bias = std::nullopt, const ConvOptions& options = {});

/// One value for all spatial dimensions, or one per dimension. Each spatial dimension of the result has
/// (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1 elements.
struct ConvTransposeOptions {
  Shape stride = {1};
  Shape padding = {0};
  Shape output_padding = {0};  ///< smaller than the stride or the dilation (ValueError)
  std::int64_t groups = 1;
  Shape dilation = {1};
};
/// The gradient of a convolution with respect to its input. Zeros that a stride would insert do not exist: infinities
/// and NaN of the weight do not meet them. input [N, C, L] or [C, L], weight [C, O/groups, K], bias [O].  PyTorch:
/// conv_transpose1d.
LOCKSTEP_API Tensor conv_transpose1d(const Operand& input, const Operand& weight,
                                     const std::optional<Tensor>& bias = std::nullopt,
                                     const ConvTransposeOptions& options = {});
/// input [N, C, H, W] or [C, H, W], weight [C, O/groups, KH, KW], bias [O].  PyTorch: conv_transpose2d.
LOCKSTEP_API Tensor conv_transpose2d(const Operand& input, const Operand& weight,
                                     const std::optional<Tensor>& bias = std::nullopt,
                                     const ConvTransposeOptions& options = {});
/// input [N, C, D, H, W] or [C, D, H, W], weight [C, O/groups, KD, KH, KW], bias [O].  PyTorch: conv_transpose3d.
LOCKSTEP_API Tensor conv_transpose3d(const Operand& input, const Operand& weight,
                                     const std::optional<Tensor>& bias = std::nullopt,
                                     const ConvTransposeOptions& options = {});

}  // namespace v0
}  // namespace lockstep
