// What the files of pools share.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ops/windows.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// What a pool is called with, as its helpers pass it on.
struct PoolArguments : PoolOptions {
  Shape kernel;
};

/// A value that no element of `dtype` is below, and its bits.
double lowest_value(DType dtype);
std::uint64_t lowest_bits(DType dtype);

/// Along one axis of an input of `size` elements: where each window starts, and its first tap that is no filling.
struct WindowStarts {
  std::int64_t size = 0, taps = 1, dilation = 1;
  std::vector<std::int64_t> start;
  std::vector<std::int64_t> first;
};

/// The largest of each window of the input's last dimensions. Its gradient goes to the first of equal elements.
Tensor largest(const Tensor& input, const std::vector<Axis>& axes);
/// The same of windows [..., out..., taps...] that were read in another way.
Tensor largest_tap(const Tensor& windows, std::size_t axes);
/// The index in the input's plane of the largest of each window (filled with lowest_bits).
Tensor place_of_largest(const Tensor& windows, const std::vector<WindowStarts>& starts);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
