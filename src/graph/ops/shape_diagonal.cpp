// Diagonals, read and placed: both are views.
#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "graph/ops/operand.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

Tensor Tensor::diagonal(std::int64_t offset, int a, int b, CallSite site) const {
  const CallScope call("diagonal", site);
  check_defined({{"input", *this}});
  if (rank() < 2) {
    fail<ShapeError>("needs at least two dimensions", {{"input", *this}}, "diag makes a matrix of a vector");
  }
  check_dims(*this, {a, b});
  const int rows = check_dim(*this, a);
  const int columns = check_dim(*this, b);
  // A diagonal outside the matrix is empty, wherever it would be.
  const std::int64_t first = offset >= 0 ? 0 : offset < -shape()[rows] ? shape()[rows] : -offset;
  const std::int64_t second = std::clamp<std::int64_t>(offset, 0, shape()[columns]);
  const std::int64_t size = std::min(shape()[rows] - first, shape()[columns] - second);
  return change_view(
      *this, [&](const View& view) { return std::optional(view.diagonal(rows, columns, first, second, size)); });
}

Tensor diag_embed(const Operand& a, std::int64_t offset, int first, int second) {
  const CallScope call("diag_embed", a);
  const Tensor& input = tensor_operand(a);
  const int rank = input.rank() + 1;
  const auto in_result = [&](int dim) {
    if (dim >= -rank && dim < rank) return dim < 0 ? dim + rank : dim;
    fail<IndexError>(fmt::format("dimension {} does not exist in the result", dim), {{"input", input}},
                     fmt::format("use a dimension from {} to {}", -rank, rank - 1));
  };
  if (input.rank() < 1) fail<ShapeError>("needs at least one dimension", {{"input", input}});
  const int row = in_result(first);
  const int column = in_result(second);
  if (row == column) {
    fail<ValueError>(fmt::format("{} and {} are one dimension", first, second), {{"input", input}});
  }
  constexpr std::int64_t kFarthest = std::int64_t{1} << 31;
  if (offset < -kFarthest || offset > kFarthest) {
    fail<ShapeError>(fmt::format("offset {} makes too large a matrix", offset), {{"input", input}});
  }
  Shape target = input.shape();
  target[rank - 2] += std::abs(offset);
  target.push_back(target[rank - 2]);
  check_shape(target, input.dtype());
  const Tensor matrix = change_view(input, [&](const View& view) { return view.embedded(offset, 0); });
  return matrix.movedim({-2, -1}, {row, column});
}

Tensor diag(const Operand& a, std::int64_t offset) {
  const CallScope call("diag", a);
  const Tensor& input = tensor_operand(a);
  if (input.rank() == 1) return diag_embed(a, offset);
  if (input.rank() == 2) return input.diagonal(offset, 0, 1);
  fail<ShapeError>("takes a vector or a matrix", {{"input", input}}, "use diagonal or diag_embed");
}

}  // namespace v0
}  // namespace lockstep
