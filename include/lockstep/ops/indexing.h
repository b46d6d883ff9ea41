// Elements at computed places. Indices are i32 or i64 tensors. An index that is out of range reads zero or writes
// nothing, and an IndexError with its position and the limit is thrown when the result is read; only `index` and
// `index_put` take negative indices (counted from the end, as in Python).
#pragma once

#include <optional>
#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

/// input[i][index[i][j]][k] for dim = 1, and so on: the result has the index's shape, which is not larger than the
/// input's outside `dim`.  PyTorch: gather.
LOCKSTEP_API Tensor gather(const Operand& input, int dim, const Tensor& index);
/// The same with index and input broadcast outside `dim`; without dim both are flattened.  PyTorch: take_along_dim.
LOCKSTEP_API Tensor take_along_dim(const Operand& input, const Tensor& index, std::optional<int> dim = std::nullopt);
/// Elements at row-major positions, in the index's shape.  PyTorch: take.
LOCKSTEP_API Tensor take(const Operand& input, const Tensor& index);
/// Whole slices along `dim`, in the order of the 1-d `index`.  PyTorch: index_select.
LOCKSTEP_API Tensor index_select(const Operand& input, int dim, const Tensor& index);
/// Rows of `weight` [V, ...]: the result is [ids..., ...].  PyTorch: nn.functional.embedding.
LOCKSTEP_API Tensor embedding(const Operand& weight, const Tensor& ids);
/// 1 at the place of each class along a new last dimension, as i64; without a count: the largest class + 1 (computes).
LOCKSTEP_API Tensor one_hot(const Operand& classes, std::optional<std::int64_t> num_classes = std::nullopt);

/// `input` with source[i][j][k] at [i][index[i][j][k]][k] for dim = 1; index is not larger than source, and not larger
/// than input outside `dim`. Of several sources for one place the last in row-major order stays.  PyTorch: scatter.
LOCKSTEP_API Tensor scatter(const Operand& input, int dim, const Tensor& index, const Operand& source);
/// Adds instead: input + the sum of the sources, rounded once.  PyTorch: scatter_add.
LOCKSTEP_API Tensor scatter_add(const Operand& input, int dim, const Tensor& index, const Tensor& source);
/// How values for one place are combined.
enum class ReduceMode : std::uint8_t { sum, prod, mean, amax, amin };
/// PyTorch: scatter_reduce.
LOCKSTEP_API Tensor scatter_reduce(const Operand& input, int dim, const Tensor& index, const Tensor& source,
                                   ReduceMode mode, bool include_self = true);
/// Slices of `source` along `dim` to the places in the 1-d `index`.  PyTorch: index_copy, index_add, index_fill.
LOCKSTEP_API Tensor index_copy(const Operand& input, int dim, const Tensor& index, const Tensor& source);
LOCKSTEP_API Tensor index_add(const Operand& input, int dim, const Tensor& index, const Tensor& source, double alpha = 1);
LOCKSTEP_API Tensor index_fill(const Operand& input, int dim, const Tensor& index, double value);

/// input[indices[0], indices[1], ...] with tensors that broadcast against each other; absent ones take the whole
/// dimension. bool tensors select where they hold (computes).  PyTorch: input[...].
LOCKSTEP_API Tensor index(const Operand& input, const std::vector<std::optional<Tensor>>& indices);
/// `input` with input[indices] = values (or += with accumulate); values broadcast.  PyTorch: index_put.
LOCKSTEP_API Tensor index_put(const Operand& input, const std::vector<std::optional<Tensor>>& indices,
                              const Operand& values, bool accumulate = false);

/// The places [count, rank] of elements other than zero, i64, row-major (computes).  PyTorch: nonzero, argwhere.
LOCKSTEP_API Tensor nonzero(const Operand& input);
/// The elements where the bool `mask` (which broadcasts) holds, 1-d (computes).  PyTorch: masked_select.
LOCKSTEP_API Tensor masked_select(const Operand& input, const Tensor& mask);
/// `input` with elements of `source`, in order, where `mask` holds.  PyTorch: masked_scatter.
LOCKSTEP_API Tensor masked_scatter(const Operand& input, const Tensor& mask, const Tensor& source);

}  // namespace v0
}  // namespace lockstep
