// Elements at computed places of a tensor's last dimensions: what padding, resampling and unequal windows read through.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ops/operand.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// The plane of x's last `axes` dimensions read at `index`, positions in the row-major plane (i32 or i64) that are in
/// range. The last `places` dimensions of the index are new ones of the result; those before, if any, broadcast over
/// x's leading dimensions. Result: [leading..., places...]; one gather.
Tensor take_flat(const Tensor& x, int axes, const Tensor& index, int places);

/// x with dimension `dim` read at `positions`, all in range.
Tensor take_along(const Tensor& x, int dim, const std::vector<std::int64_t>& positions);

/// result[..., i, j, ...] = x[..., positions[0][i], positions[1][j], ...] for the last dimensions.
Tensor take_grid(const Tensor& x, const std::vector<std::vector<std::int64_t>>& positions);

/// A row of host values as a tensor of `rank` dimensions, all of size 1 but `dim`.
Tensor table(const std::vector<std::int64_t>& values, int dim, int rank, DType dtype, Device device);
Tensor table(const std::vector<double>& values, int dim, int rank, DType dtype, Device device);

/// The type of positions among `count` elements: the smaller one where it is enough.
inline DType position_type(std::int64_t count) {
  return count <= (std::int64_t{1} << 31) ? DType::i32 : DType::i64;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
