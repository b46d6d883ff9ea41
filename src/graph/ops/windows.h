// What pools and unfold share: checked options of spatial dimensions, and window views.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ops/operand.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// One spatial dimension: `output` windows of `kernel` taps, over `padding` elements, the input, and `after` elements.
struct Axis {
  std::int64_t size = 0, kernel = 1, stride = 1, padding = 0, dilation = 1, output = 0, after = 0;

  /// First to last tap of a window.
  std::int64_t reach() const { return dilation * (kernel - 1) + 1; }
};

/// `given` for each of `rank` dimensions, each value at least `least`. ValueError.
Shape per_axis(const char* what, const Shape& given, int rank, std::int64_t least, const Tensor& input);

/// x as [..., out..., kernel...], the last dimensions being `axes`, with `fill` around it.
Tensor windows_of(const Tensor& x, const std::vector<Axis>& axes, std::uint64_t fill);

/// The last `count` dimensions, as bits.
std::uint32_t last_dims(const Tensor& tensor, std::size_t count);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
