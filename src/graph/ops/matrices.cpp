// Diagonals, triangles and grids: masks made of positions, and views.
#include <algorithm>

#include <fmt/format.h>

#include "backends/backend.h"
#include "graph/ops/operand.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

Tensor positions(std::int64_t count, Device device) {
  return Access::tensor(make_node(Iota{}, {}, {count}, DType::i64, device));
}

// Column minus row, [rows, columns]: which diagonal an element is on.
Tensor diagonals(std::int64_t rows, std::int64_t columns, Device device) {
  return sub(positions(columns, device), positions(rows, device).reshape({rows, 1}));
}

using Comparison = Tensor (*)(const Operand&, const Operand&);

Tensor triangle(const Operand& a, std::int64_t diagonal, Comparison keeps) {
  const Tensor& x = tensor_operand(a);
  if (x.rank() < 2) {
    fail<ShapeError>("needs at least two dimensions", {{"input", x}}, "add one with unsqueeze");
  }
  // Diagonals beyond every element are all alike; the scalar stays exact as a double.
  const std::int64_t rows = x.shape()[x.rank() - 2];
  const std::int64_t columns = x.shape()[x.rank() - 1];
  const std::int64_t limited = std::clamp(diagonal, -rows - 1, columns + 1);
  const Tensor keep = keeps(diagonals(rows, columns, x.device()), limited);
  return where(keep, a, 0);
}

Tensor triangle_indices(std::int64_t rows, std::int64_t columns, std::int64_t diagonal, bool lower, Device device) {
  check_shape({rows, columns}, DType::i64);
  std::vector<std::int64_t> indices[2];
  const std::int64_t limited = std::clamp(diagonal, -rows - 1, columns + 1);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t border = std::clamp<std::int64_t>(row + limited + (lower ? 1 : 0), 0, columns);
    for (std::int64_t column = lower ? 0 : border; column < (lower ? border : columns); ++column) {
      indices[0].push_back(row);
      indices[1].push_back(column);
    }
  }
  const auto count = static_cast<std::int64_t>(indices[0].size());
  indices[0].insert(indices[0].end(), indices[1].begin(), indices[1].end());
  return Tensor::from(indices[0], {2, count}, device);
}

}  // namespace

Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns, TensorOptions options, CallSite site) {
  const CallScope call("eye", site);
  const Shape shape{rows, columns.value_or(rows)};
  check_shape(shape, options.dtype);
  backend_of(options.device);
  return cast(eq(diagonals(shape[0], shape[1], options.device), 0), options.dtype);
}

Tensor tril(const Operand& a, std::int64_t diagonal) {
  const CallScope call("tril", a);
  return triangle(a, diagonal, &le);
}
Tensor triu(const Operand& a, std::int64_t diagonal) {
  const CallScope call("triu", a);
  return triangle(a, diagonal, &ge);
}

Tensor tril_indices(std::int64_t rows, std::int64_t columns, std::int64_t diagonal, Device device, CallSite site) {
  const CallScope call("tril_indices", site);
  return triangle_indices(rows, columns, diagonal, true, device);
}
Tensor triu_indices(std::int64_t rows, std::int64_t columns, std::int64_t diagonal, Device device, CallSite site) {
  const CallScope call("triu_indices", site);
  return triangle_indices(rows, columns, diagonal, false, device);
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, GridIndexing indexing, CallSite site) {
  const CallScope call("meshgrid", site);
  std::vector<Shown> shown;
  for (std::size_t i = 0; i < tensors.size(); ++i) shown.emplace_back(fmt::format("tensors[{}]", i), tensors[i]);
  if (tensors.empty()) fail<ValueError>("the list of tensors is empty", {}, "give at least one tensor");
  check_same_device(shown);
  check_same_dtype(shown);
  Shape sizes;
  if (tensors.size() > static_cast<std::size_t>(kMaxRank)) {
    fail<ShapeError>(fmt::format("{} tensors make more than {} dimensions", tensors.size(), kMaxRank));
  }
  for (const Tensor& tensor : tensors) {
    if (tensor.rank() > 1) {
      fail<ShapeError>("takes tensors with at most one dimension", shown, "flatten them");
    }
    sizes.push_back(tensor.numel());
  }
  const int rank = sizes.rank();
  const bool exchanged = indexing == GridIndexing::xy && rank >= 2;
  if (exchanged) std::swap(sizes[0], sizes[1]);
  std::vector<Tensor> result;
  for (int i = 0; i < rank; ++i) {
    const int dim = exchanged && i < 2 ? 1 - i : i;
    Shape own = Shape::filled(rank, 1);
    own[dim] = sizes[dim];
    result.push_back(tensors[static_cast<std::size_t>(i)].reshape(own).expand(sizes));
  }
  return result;
}

}  // namespace v0
}  // namespace lockstep
