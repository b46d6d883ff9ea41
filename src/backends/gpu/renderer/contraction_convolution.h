// Contractions of windows as what they are, for a library that convolves (fast numerics): the reverse of what
// graph/ops/convolution.cpp and conv_transpose.cpp make of a convolution and its gradients.
#pragma once

#include <optional>

#include "backends/gpu/renderer/contraction.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// The library's call for the contraction, with copies of what does not lie channels last, and the epilogue. Nothing
/// where its operands are no windows that overlap or have borders, or the library has no such convolution: one group,
/// and as much padding on both sides as the output's size needs.
///
///   forward          a = windows of x over (images, positions; channels, taps), b = weights
///   input gradient   the same of y with `stride` - 1 zeros between its elements, taps backwards
///   weight gradient  a = y over (outputs; images, positions), b = windows of x
std::optional<Rendered> render_convolution(const ContractionKernel& kernel, const RenderLimits& limits);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
