// Pools: one value per window over the last dimensions.
//
// Inputs are [N, C, spatial...] or [C, spatial...], with one to three spatial dimensions by the op's name. Errors:
// ShapeError for another rank and for a window that does not fit the padded input, ValueError for options outside
// their range, DTypeError for averages of integers.
#pragma once

#include <optional>
#include <vector>

#include <lockstep/ops/order.h>
#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

// Windows have one size for all spatial dimensions, max_pool2d(x, 3, {.stride = 2}), or one per dimension; so have
// options.
struct PoolOptions {
  Shape stride = {};       ///< empty: the kernel
  Shape padding = {0};     ///< at most half of what a window spans; never wins a maximum
  Shape dilation = {1};    ///< max pools only
  bool ceil_mode = false;  ///< also a last window that starts inside but reaches over the end
  bool count_include_pad = true;                               ///< average pools only: padding counts as zeros
  std::optional<std::int64_t> divisor_override = std::nullopt;  ///< average pools only: divides by this instead
};

/// The largest value of each window, any dtype; NaN wins.  PyTorch: max_pool1d and so on.
LOCKSTEP_API Tensor max_pool1d(const Operand& input, const Shape& kernel, const PoolOptions& options = {});
LOCKSTEP_API Tensor max_pool2d(const Operand& input, const Shape& kernel, const PoolOptions& options = {});
LOCKSTEP_API Tensor max_pool3d(const Operand& input, const Shape& kernel, const PoolOptions& options = {});
/// With where each stands in its spatial plane: i64, row-major, the first of equal values.  PyTorch: max_pool1d(return_indices=True), max_pool1d_with_indices and so on. Of several NaN PyTorch's
/// CPU names the last, this the first.
LOCKSTEP_API ValuesIndices max_pool1d_with_indices(const Operand& input, const Shape& kernel,
                                                   const PoolOptions& options = {});
LOCKSTEP_API ValuesIndices max_pool2d_with_indices(const Operand& input, const Shape& kernel,
                                                   const PoolOptions& options = {});
LOCKSTEP_API ValuesIndices max_pool3d_with_indices(const Operand& input, const Shape& kernel,
                                                   const PoolOptions& options = {});

/// R of each window divided by the number of its taps.  PyTorch: avg_pool1d and so on.
LOCKSTEP_API Tensor avg_pool1d(const Operand& input, const Shape& kernel, const PoolOptions& options = {});
LOCKSTEP_API Tensor avg_pool2d(const Operand& input, const Shape& kernel, const PoolOptions& options = {});
LOCKSTEP_API Tensor avg_pool3d(const Operand& input, const Shape& kernel, const PoolOptions& options = {});

/// (sum of x^p over each window)^(1/p); a window that ceil_mode lets reach over the end counts as if it were whole.
/// Stride and ceil_mode only. p is not 0 (ValueError).  PyTorch: lp_pool1d and so on.
LOCKSTEP_API Tensor lp_pool1d(const Operand& input, double p, const Shape& kernel, const PoolOptions& options = {});
LOCKSTEP_API Tensor lp_pool2d(const Operand& input, double p, const Shape& kernel, const PoolOptions& options = {});
LOCKSTEP_API Tensor lp_pool3d(const Operand& input, double p, const Shape& kernel, const PoolOptions& options = {});

/// Kernel, stride and padding are those of the pool that is undone.
struct MaxUnpoolOptions {
  Shape stride = {};  ///< empty: the kernel
  Shape padding = {0};
  Shape output_size = {};  ///< spatial; only needed where the others do not tell it
};
/// The values of a max pool at their indices, zeros elsewhere. Where indices repeat, the last one's value stays.
/// Indices are i64 (DTypeError); one outside the plane is an IndexError when the result is read.  PyTorch: max_unpool1d
/// and so on.
LOCKSTEP_API Tensor max_unpool1d(const Operand& input, const Tensor& indices, const Shape& kernel,
                                 const MaxUnpoolOptions& options = {});
LOCKSTEP_API Tensor max_unpool2d(const Operand& input, const Tensor& indices, const Shape& kernel,
                                 const MaxUnpoolOptions& options = {});
LOCKSTEP_API Tensor max_unpool3d(const Operand& input, const Tensor& indices, const Shape& kernel,
                                 const MaxUnpoolOptions& options = {});

/// Windows chosen so that there are `output_size` of them: window i covers floor(i * size / output) up to
/// ceil((i + 1) * size / output). One value for all dimensions or one each; -1 keeps the input's size (PyTorch: None).
/// PyTorch: adaptive_avg_pool1d, adaptive_max_pool1d and so on. An output of 1 is the global pool.
LOCKSTEP_API Tensor adaptive_avg_pool1d(const Operand& input, const Shape& output_size);
LOCKSTEP_API Tensor adaptive_avg_pool2d(const Operand& input, const Shape& output_size);
LOCKSTEP_API Tensor adaptive_avg_pool3d(const Operand& input, const Shape& output_size);
LOCKSTEP_API Tensor adaptive_max_pool1d(const Operand& input, const Shape& output_size);
LOCKSTEP_API Tensor adaptive_max_pool2d(const Operand& input, const Shape& output_size);
LOCKSTEP_API Tensor adaptive_max_pool3d(const Operand& input, const Shape& output_size);
LOCKSTEP_API ValuesIndices adaptive_max_pool1d_with_indices(const Operand& input, const Shape& output_size);
LOCKSTEP_API ValuesIndices adaptive_max_pool2d_with_indices(const Operand& input, const Shape& output_size);
LOCKSTEP_API ValuesIndices adaptive_max_pool3d_with_indices(const Operand& input, const Shape& output_size);

}  // namespace v0
}  // namespace lockstep
