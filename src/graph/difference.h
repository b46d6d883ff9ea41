// Where two values of one dtype part. Every NaN counts as every other, as in Tensor::hash.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <lockstep/dtype.h>
#include <lockstep/shape.h>

namespace lockstep {
inline namespace v0 {
namespace graph {

struct ElementDifference {
  std::int64_t position = 0;  ///< of the first one, row-major
  std::int64_t count = 0;     ///< how many elements differ
  std::string a;              ///< the first one's values, with their bits
  std::string b;
  /// Steps from one float to the other through all between them; nothing for NaN and other types.
  std::optional<std::uint64_t> ulps;
};
/// Nothing where all elements are equal. Both have the same size.
std::optional<ElementDifference> first_difference(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b);

/// The same of floats `a` that do not lie between `low` and `high`, whichever is larger, by more than the smallest
/// normal number; of other types that equal neither, nor `b`, which is between them. Where one of the three is not
/// finite, `a` may be anything.
std::optional<ElementDifference> first_outside(DType dtype, std::span<const std::byte> a,
                                               std::span<const std::byte> low, std::span<const std::byte> b,
                                               std::span<const std::byte> high);

/// Element `position` as an index.
Shape index_of(std::int64_t position, const Shape& shape);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
