// The rows of scans and sorts, by where they lie in memory: along the last axis a row's elements are neighbours; along
// another axis the rows are, and blocks of them are read together.
#pragma once

#include <cstdint>

#include <lockstep/shape.h>

namespace lockstep {
inline namespace v0 {
namespace irregular {

/// The dims (rows..., n) in two orders: rows are numbered before * inner + (their number among the inner ones).
struct RowOrder {
  Shape across;         ///< the dims of the view as (before..., n, inner...)
  int dims_before = 0;  ///< of rows
  std::int64_t before = 1;
  std::int64_t inner =
      1;  ///< rows next to each other: those of the last dims of rows, where the output's strides are less than n's
};

inline RowOrder order_of(const Shape& rows, std::int64_t n, const Shape& out_strides) {
  RowOrder order;
  order.dims_before = rows.rank();
  if (n > 1) {
    while (order.dims_before > 0 && out_strides[order.dims_before - 1] < out_strides.back()) --order.dims_before;
  }
  for (int d = 0; d < order.dims_before; ++d) order.across.push_back(d);
  order.across.push_back(rows.rank());
  for (int d = order.dims_before; d < rows.rank(); ++d) order.across.push_back(d);
  order.before = rows.slice(0, order.dims_before).numel();
  order.inner = rows.slice(order.dims_before, rows.rank()).numel();
  return order;
}

/// `form` with its dims in this order.
inline Shape in_order(const Shape& dims, const Shape& form) {
  Shape result;
  for (const std::int64_t d : dims) result.push_back(form[static_cast<int>(d)]);
  return result;
}

}  // namespace irregular
}  // namespace v0
}  // namespace lockstep
