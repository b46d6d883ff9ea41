// What the files of pools share.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ops/windows.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// A value that no element of `dtype` is below, and its bits.
double lowest_value(DType dtype);
std::uint64_t lowest_bits(DType dtype);

/// Along one axis of an input of `size` elements: where each window starts, and its first tap that is no filling.
struct WindowStarts {
  std::int64_t size = 0, taps = 1, dilation = 1;
  std::vector<std::int64_t> start;
  std::vector<std::int64_t> first;
};

/// The largest of each window [..., out..., taps...] (filled with lowest_bits) and its index in the input's plane.
ValuesIndices largest(const Tensor& windows, const std::vector<WindowStarts>& starts, CallSite site);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
