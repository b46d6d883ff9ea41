// Diagonals, read and placed: both are views.
#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "graph/ops/operand.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

Tensor Tensor::diagonal(std::int64_t offset, int a, int b, CallSite site) const {
  check_defined("diagonal", {{"input", *this}}, site);
  if (rank() < 2) {
    fail<ShapeError>("diagonal", "needs at least two dimensions", {{"input", *this}}, "diag makes a matrix of a vector",
                     site);
  }
  check_dims("diagonal", *this, {a, b}, site);
  const int rows = check_dim("diagonal", *this, a, site);
  const int columns = check_dim("diagonal", *this, b, site);
  // A diagonal outside the matrix is empty, wherever it would be.
  const std::int64_t first = offset >= 0 ? 0 : offset < -shape()[rows] ? shape()[rows] : -offset;
  const std::int64_t second = std::clamp<std::int64_t>(offset, 0, shape()[columns]);
  const std::int64_t size = std::min(shape()[rows] - first, shape()[columns] - second);
  return change_view(
      *this, site, [&](const View& view) { return std::optional(view.diagonal(rows, columns, first, second, size)); });
}

Tensor diag_embed(const Operand& a, std::int64_t offset, int first, int second) {
  const char* const op = "diag_embed";
  const Tensor& input = tensor_operand(op, a);
  const CallSite site = a.site();
  const int rank = input.rank() + 1;
  const auto in_result = [&](int dim) {
    if (dim >= -rank && dim < rank) return dim < 0 ? dim + rank : dim;
    fail<IndexError>(op, fmt::format("dimension {} does not exist in the result", dim), {{"input", input}},
                     fmt::format("use a dimension from {} to {}", -rank, rank - 1), site);
  };
  if (input.rank() < 1) fail<ShapeError>(op, "needs at least one dimension", {{"input", input}}, "", site);
  const int row = in_result(first);
  const int column = in_result(second);
  if (row == column) {
    fail<ValueError>(op, fmt::format("{} and {} are one dimension", first, second), {{"input", input}}, "", site);
  }
  constexpr std::int64_t kFarthest = std::int64_t{1} << 31;
  if (offset < -kFarthest || offset > kFarthest) {
    fail<ShapeError>(op, fmt::format("offset {} makes too large a matrix", offset), {{"input", input}}, "", site);
  }
  Shape target = input.shape();
  target[rank - 2] += std::abs(offset);
  target.push_back(target[rank - 2]);
  check_shape(op, target, input.dtype(), site);
  const Tensor matrix = change_view(input, site, [&](const View& view) { return view.embedded(offset, 0); });
  return matrix.movedim({-2, -1}, {row, column}, site);
}

Tensor diag(const Operand& a, std::int64_t offset) {
  const Tensor& input = tensor_operand("diag", a);
  if (input.rank() == 1) return diag_embed(a, offset);
  if (input.rank() == 2) return input.diagonal(offset, 0, 1, a.site());
  fail<ShapeError>("diag", "takes a vector or a matrix", {{"input", input}}, "use diagonal or diag_embed", a.site());
}

}  // namespace v0
}  // namespace lockstep
