// Views: how the indices of an iteration space (or of a tensor) map to the elements of a buffer, without moving data.
//
// address(i) = offset + sum_d strides[d] * i[d]  (+ the parts of stepped bounds, below), in elements.
// Each bound checks one coordinate of the source: c = offset + sum_d m[d] * i[d] must satisfy lo <= c < hi, and
// `step` must divide c; a bound with step > 1 (from dilate) adds stride * (c / step) to the address. Where a bound
// fails the element is the view's fill value and memory is not touched.
// Every view operation either composes into this form or reports that the source has to be stored first.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <lockstep/shape.h>

namespace lockstep {
inline namespace v0 {

/// One checked source coordinate of a View.
struct Bound {
  std::int64_t offset = 0;
  Shape m;                  ///< coefficient per dimension of the view
  std::int64_t lo = 0;
  std::int64_t hi = 0;      ///< exclusive
  std::int64_t step = 1;    ///< must divide the coordinate
  std::int64_t stride = 0;  ///< address contribution per coordinate / step; used only where step > 1
  friend bool operator==(const Bound&, const Bound&) = default;
};

struct View {
  Shape shape;
  Shape strides;                ///< in elements; may be 0 or negative
  std::int64_t offset = 0;
  std::vector<Bound> bounds;    ///< usually empty
  std::uint64_t fill = 0;       ///< bits of the fill element in the tensor's dtype

  /// Row-major over `shape`.
  static View contiguous(const Shape& shape);

  bool is_contiguous() const;                 ///< row-major, no bounds (offset may differ from 0)
  int rank() const { return shape.rank(); }
  friend bool operator==(const View&, const View&) = default;

  // Each returns the view of this view, or nothing when the result is not of the form above.
  // Arguments are already checked by the op rules (dimensions in range, sizes fit).
  std::optional<View> reshaped(const Shape& shape) const;
  View permuted(const Shape& dims) const;
  View expanded(const Shape& shape) const;
  /// Dimension `dim` becomes i -> start + step * i with `size` elements; step may be negative.
  View sliced(int dim, std::int64_t start, std::int64_t step, std::int64_t size) const;
  /// Adds `before` and `after` elements of `fill` around `dim`; negative amounts crop.
  std::optional<View> padded(int dim, std::int64_t before, std::int64_t after, std::uint64_t fill) const;
  /// Replaces `dim` (size n) by two dimensions at its place: `count` window positions `stride` apart, and at the
  /// end of the shape the `kernel` taps, `dilation` apart.
  View windowed(int dim, std::int64_t kernel, std::int64_t count, std::int64_t stride, std::int64_t dilation) const;
  /// Inserts step - 1 fill elements between neighbours along `dim`.
  std::optional<View> dilated(int dim, std::int64_t step, std::uint64_t fill) const;

  /// The inverse of windowed: dimension `dim` (window positions, `stride` apart) becomes `size` elements, where index
  /// (i, t) of it and of the tap dimension is the window that has element i - before as its tap t; `fill` where there
  /// is none. A sum over the taps adds what windows have in common.
  std::optional<View> folded(int dim, int tap_dim, std::int64_t size, std::int64_t before, std::int64_t stride,
                             std::int64_t dilation, std::uint64_t fill) const;
  /// Both dimensions become one at the end of the shape: i -> (first + i, second + i), `size` elements.
  View diagonal(int dim, int other, std::int64_t first, std::int64_t second, std::int64_t size) const;
  /// The last dimension (size n) becomes two of n + |offset| elements, with `fill` outside the diagonal `offset`.
  std::optional<View> embedded(std::int64_t offset, std::uint64_t fill) const;

  /// Address of one index (rank() entries), or -1 where a bound fails. For tests and the reference backend.
  std::int64_t address(const std::int64_t* index) const;
};

/// Merges neighbouring dimensions where every view of the list allows it, and drops dimensions of size 1. All views
/// have shape `shape`. `keep`: positions p such that dimensions p - 1 and p must not merge. `first_of`, if given,
/// receives for every old dimension the number of new dimensions before it. Returns the common shape afterwards.
Shape collapse_dims(const std::vector<View*>& views, const Shape& shape, const std::vector<int>& keep,
                    std::vector<int>* first_of = nullptr);

}  // namespace v0
}  // namespace lockstep
