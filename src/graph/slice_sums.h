// Gradients of slices: what reads a part of a tensor gives a gradient that is zero elsewhere. Those of several parts,
// which do not overlap, are laid side by side in one pass instead of being filled up with zeros and added.
#pragma once

#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace graph {

/// Whether `gradient` is pending, and zeros with one region replaced.
bool is_slice(const Tensor& gradient);
/// The sum of several gradients that are slices and do not overlap, in the bits that adding them in turn has, without a
/// history; else undefined.
Tensor joined_slices(const std::vector<Tensor>& slices);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
