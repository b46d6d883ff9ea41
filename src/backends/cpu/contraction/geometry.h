// An operand of a contraction as packing sees it: element addresses and checked coordinates are sums over three groups
// of dimensions (batch, outer, k). A position in one group knows its share of each sum, so that addresses of elements
// need neither divisions nor more than a few additions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/view.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

/// Bounds of one view after merging; each is a padded or dilated source axis, so there are rarely more than three.
inline constexpr int kMaxBounds = 16;
/// Entries of the largest table of addresses that a kernel keeps.
inline constexpr std::int64_t kMaxTable = 1 << 20;

/// Dimensions of one group: sizes, address strides, and the coefficients of every bound.
struct Group {
  Shape sizes;
  Shape strides;
  std::vector<Shape> coefficients;  ///< one entry per bound of the operand

  std::int64_t count() const { return sizes.numel(); }
  /// Drops dimensions of size 1 and merges neighbours that are one dimension in disguise.
  void simplify();
  /// The stride of the group seen as one dimension, or nothing; of one element 0.
  std::optional<std::int64_t> single_stride() const;
  /// The innermost dimension; a group without dimensions has one element.
  std::int64_t inner_size() const { return sizes.empty() ? 1 : sizes.back(); }
  std::int64_t inner_stride() const { return sizes.empty() ? 0 : strides.back(); }
  std::int64_t inner_coefficient(int bound) const {
    return sizes.empty() ? 0 : coefficients[static_cast<std::size_t>(bound)].back();
  }
  /// Whether addresses and coordinates do not depend on dimension `dim`.
  bool invariant_in(int dim) const;
};

/// The dims `dims` of a view whose bounds are `bounds`.
Group group_of(const View& view, const std::vector<Bound>& bounds, const std::vector<int>& dims);

/// Limits of one checked coordinate: lo <= c < hi, step divides c, and c / step * stride joins the address (step > 1).
struct Limit {
  std::int64_t offset = 0;
  std::int64_t lo = 0;
  std::int64_t hi = 0;
  std::int64_t step = 1;
  std::int64_t stride = 0;
};

/// What one index of a group adds to the address and to each checked coordinate.
struct Position {
  std::int64_t address = 0;
  std::array<std::int64_t, kMaxBounds> coordinates{};
};

struct Geometry {
  Group batch, outer, k;
  std::int64_t offset = 0;
  std::vector<Limit> limits;

  int bounds() const { return static_cast<int>(limits.size()); }
  bool stepped() const;
  /// Whether checked coordinates depend on the batch index.
  bool bounded_in_batch() const;
  /// Share of the batch index, with the view's own offsets.
  Position batch_position(std::int64_t index) const;
  /// Its address alone.
  std::int64_t batch_address(std::int64_t index) const;
};

/// Walks the indices of a group in row-major order.
class Walk {
 public:
  Walk(const Group& group, int bounds) : group_(group), bounds_(bounds) {}

  void seek(std::int64_t index);
  /// Moves on by `count`, at most run() elements.
  void advance(std::int64_t count);
  /// Elements from here to the end of the innermost dimension.
  std::int64_t run() const { return group_.inner_size() - inner_; }
  const Position& position() const { return position_; }

 private:
  void carry();
  const Group& group_;
  int bounds_;
  std::int64_t inner_ = 0;
  std::array<std::int64_t, Shape::kCapacity> index_{};
  Position position_;
};

/// Elements [first, last) of a run of `count` that lie inside every limit, when the run starts at the sum of the given
/// coordinates and each element adds `inner.inner_coefficient`. For limits without step.
struct Span {
  std::int64_t first = 0;
  std::int64_t last = 0;
};
Span valid_span(const Geometry& geometry, const Group& inner, const std::int64_t* a, const std::int64_t* b,
                const std::int64_t* c, std::int64_t count);

/// Address of the element at three positions, or -1 where a limit fails. Also for limits with a step.
std::int64_t address_of(const Geometry& geometry, const Position& a, const Position& b, const Position& c,
                        bool& inside);

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
