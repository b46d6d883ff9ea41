// Where a kernel's iterations compute and read values. A map is a view over an iteration space: the position in the
// dense value that each iteration computes or uses; stride 0 along a dimension: one value serves all its indices.
#pragma once

#include <cstdint>
#include <optional>

#include "core/view.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// `inner` (over a shape S) read at the dense positions of S that `outer` selects: the view over outer's shape.
/// Nothing if the result is no view.
std::optional<View> compose(const View& outer, const View& inner);

/// Dense positions of the row values of `space`: row-major over the dimensions outside `inner` (bits).
View row_map(const Shape& space, std::uint32_t inner);
/// How many row values there are.
std::int64_t rows_of(const Shape& space, std::uint32_t inner);

/// Whether both select the same elements of a dense value.
bool same_positions(const View& a, const View& b);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
