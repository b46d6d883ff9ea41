// Views and what is made of them: no arithmetic, every bit is kept, every dtype is taken. Many are members of Tensor.
#pragma once

#include <optional>
#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

// Joining. All tensors have one dtype and device (DTypeError, DeviceError); an empty list is a ValueError.

/// All sizes but that of `dim` must be equal (ShapeError).  PyTorch: cat, concat, concatenate.
LOCKSTEP_API Tensor cat(const std::vector<Tensor>& tensors, int dim = 0, CallSite site = {});
/// Tensors of one shape along a new dimension.  PyTorch: stack.
LOCKSTEP_API Tensor stack(const std::vector<Tensor>& tensors, int dim = 0, CallSite site = {});
/// cat along dimension 1 (vectors: 0), of what has at least one dimension.  PyTorch: hstack.
LOCKSTEP_API Tensor hstack(const std::vector<Tensor>& tensors, CallSite site = {});
/// cat along dimension 0, of what has at least two dimensions.  PyTorch: vstack, row_stack.
LOCKSTEP_API Tensor vstack(const std::vector<Tensor>& tensors, CallSite site = {});
/// cat along dimension 2, of what has at least three dimensions.  PyTorch: dstack.
LOCKSTEP_API Tensor dstack(const std::vector<Tensor>& tensors, CallSite site = {});
/// Scalars and vectors become columns, then cat along dimension 1.  PyTorch: column_stack.
LOCKSTEP_API Tensor column_stack(const std::vector<Tensor>& tensors, CallSite site = {});
/// [] to [1];  [], [n] to [1, n];  [], [n], [m, n] to [1, n, 1], [m, n, 1].  PyTorch: atleast_1d and so on.
LOCKSTEP_API Tensor atleast_1d(const Operand& a);
LOCKSTEP_API Tensor atleast_2d(const Operand& a);
LOCKSTEP_API Tensor atleast_3d(const Operand& a);

// Repeating.

/// NumPy's broadcasting (ShapeError).  PyTorch: broadcast_to.
LOCKSTEP_API Tensor broadcast_to(const Operand& a, const Shape& shape);
/// All tensors with their common shape; dtypes may differ.  PyTorch: broadcast_tensors.
LOCKSTEP_API std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors, CallSite site = {});
/// Tensor::repeat, but missing counts are 1.  PyTorch: tile.
LOCKSTEP_API Tensor tile(const Operand& a, const Shape& counts);
/// Every slice along `dim` `repeats` times in a row; without dim: of the flattened tensor.  PyTorch: repeat_interleave.
LOCKSTEP_API Tensor repeat_interleave(const Operand& a, std::int64_t repeats, std::optional<int> dim = std::nullopt);
/// Slice i `repeats[i]` times. `repeats` is i32 or i64 [n] (or [1]) and is computed at the call, since the shape of the
/// result depends on it. ValueError for a negative count.
LOCKSTEP_API Tensor repeat_interleave(const Operand& a, const Tensor& repeats, std::optional<int> dim = std::nullopt);

// Rearranging.

/// Row-major elements in memory of their own.  PyTorch: contiguous.
LOCKSTEP_API Tensor contiguous(const Operand& a);
/// The same as transpose.  PyTorch: swapaxes, swapdims.
LOCKSTEP_API Tensor swapaxes(const Operand& a, int first, int second);
/// Elements that leave at one end enter at the other. Without dims: of the flattened tensor.  PyTorch: roll.
LOCKSTEP_API Tensor roll(const Operand& a, const Shape& shifts, const Dims& dims = {});
/// `turns` quarter turns from the first of two `dims` towards the second.  PyTorch: rot90.
LOCKSTEP_API Tensor rot90(const Operand& a, std::int64_t turns = 1, const Dims& dims = {0, 1});
/// Dimension 1 (fliplr) or 0 (flipud) reversed.
LOCKSTEP_API Tensor fliplr(const Operand& a);
LOCKSTEP_API Tensor flipud(const Operand& a);
/// [..., C r r, H, W] to [..., C, H r, W r].  PyTorch: pixel_shuffle.
LOCKSTEP_API Tensor pixel_shuffle(const Operand& a, std::int64_t factor);
/// [..., C, H r, W r] to [..., C r r, H, W].  PyTorch: pixel_unshuffle.
LOCKSTEP_API Tensor pixel_unshuffle(const Operand& a, std::int64_t factor);
/// [N, C, ...]: the channels of `groups` groups taken in turn.  PyTorch: channel_shuffle.
LOCKSTEP_API Tensor channel_shuffle(const Operand& a, std::int64_t groups);

// Diagonals.

/// A vector on the diagonal of a matrix of zeros, or the diagonal of a matrix.  PyTorch: diag.
LOCKSTEP_API Tensor diag(const Operand& a, std::int64_t offset = 0);
/// The last dimension on the diagonal of two new ones, zeros elsewhere; a view.  PyTorch: diag_embed.
LOCKSTEP_API Tensor diag_embed(const Operand& a, std::int64_t offset = 0, int first = -2, int second = -1);

// Replacing part of a tensor: the result is `a` with the elements of a view of it replaced by `source`, which has the
// view's shape (ShapeError) and a's dtype (DTypeError). In place where nothing else holds `a`.

/// PyTorch: slice_scatter, select_scatter, diagonal_scatter.
LOCKSTEP_API Tensor slice_scatter(const Operand& a, const Operand& source, int dim, Slice range);
LOCKSTEP_API Tensor select_scatter(const Operand& a, const Operand& source, int dim, std::int64_t index);
LOCKSTEP_API Tensor diagonal_scatter(const Operand& a, const Operand& source, std::int64_t offset = 0, int first = 0,
                                     int second = 1);

// Padding.

/// How `pad` fills: from the edge inwards without the edge, with the edge, from the other end.
enum class PadMode : std::uint8_t { reflect, replicate, circular };
/// Constant padding; `padding` is PyTorch's: pairs (before, after) from the last dimension on; negative crops.
LOCKSTEP_API Tensor pad(const Operand& a, const Shape& padding, double value = 0);
/// Padding with elements of `a`. ShapeError where a pair asks for more than there is: reflect takes at most size - 1
/// on a side, circular at most size, replicate needs one element.  PyTorch: torch.nn.functional.pad.
LOCKSTEP_API Tensor pad(const Operand& a, const Shape& padding, PadMode mode);

// Windows as columns.

/// One value for both spatial dimensions, or one per dimension.
struct UnfoldOptions {
  Shape dilation = {1};
  Shape padding = {0};
  Shape stride = {1};
};
/// [N, C, H, W] to [N, C kh kw, L]: every window of zero-padded input as a column, windows and taps in row-major order.
/// Also without N. ShapeError if no window fits.  PyTorch: torch.nn.functional.unfold (im2col).
LOCKSTEP_API Tensor unfold(const Operand& a, const Shape& kernel, const UnfoldOptions& options = {});
/// [N, C kh kw, L] to [N, C, H, W]: the columns of unfold added where they came from. Floats (DTypeError).
/// Each sum is R over the window's taps in row-major order (docs/numerics.md).  PyTorch: torch.nn.functional.fold (col2im).
LOCKSTEP_API Tensor fold(const Operand& a, const Shape& output_size, const Shape& kernel,
                         const UnfoldOptions& options = {});

}  // namespace v0
}  // namespace lockstep
