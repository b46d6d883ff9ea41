#include "graph/maps.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

View row_map(const Shape& space, std::uint32_t inner) {
  Shape rows = space;
  for (int d = 0; d < rows.rank(); ++d) {
    if ((inner >> d & 1u) != 0) rows[d] = 1;
  }
  View map = View::contiguous(rows);
  map.shape = space;
  return map;
}

std::int64_t rows_of(const Shape& space, std::uint32_t inner) {
  std::int64_t rows = 1;
  for (int d = 0; d < space.rank(); ++d) {
    if ((inner >> d & 1u) == 0) rows *= space[d];
  }
  return rows;
}

bool same_positions(const View& a, const View& b) {
  return a.bounds.empty() && b.bounds.empty() && a.offset == b.offset && a.strides == b.strides;
}

std::optional<View> compose(const View& outer, const View& inner) {
  if (!outer.bounds.empty()) return std::nullopt;
  if (outer.offset == 0 && outer.shape.numel() == inner.shape.numel() &&
      outer.strides == View::contiguous(outer.shape).strides) {
    return inner.reshaped(outer.shape);
  }
  if (outer.offset != 0) return std::nullopt;
  // Each dimension of `outer` must walk along one dimension of `inner`'s shape (or stand still).
  const View dense = View::contiguous(inner.shape);
  View result;
  result.shape = outer.shape;
  result.strides = Shape::filled(outer.rank(), 0);
  result.offset = inner.offset;
  result.fill = inner.fill;
  for (const Bound& bound : inner.bounds) {
    Bound copy = bound;
    copy.m = Shape::filled(outer.rank(), 0);
    result.bounds.push_back(copy);
  }
  std::uint32_t used = 0;
  for (int d = 0; d < outer.rank(); ++d) {
    if (outer.strides[d] == 0) continue;
    int along = -1;
    for (int s = 0; s < inner.shape.rank(); ++s) {
      if (inner.shape[s] != 1 && dense.strides[s] == outer.strides[d] && outer.shape[d] <= inner.shape[s]) along = s;
    }
    if (along < 0 || (used >> along & 1u) != 0) return std::nullopt;
    used |= 1u << along;
    result.strides[d] = inner.strides[along];
    for (std::size_t b = 0; b < inner.bounds.size(); ++b) result.bounds[b].m[d] = inner.bounds[b].m[along];
  }
  return result;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
