// What products of weights in blocks of e4m3 give to the library (docs/numerics.md section 13): the bytes of either
// operand, row after row, and their scales.
#pragma once

#include "backends/gpu/renderer/contraction.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// Where they lie, in bytes.
struct FloatsAt {
  std::int64_t codes, scales;
};

constexpr int kFloatsOfBlock = 128;  ///< that share a scale

/// The scales of weights, by what their encoding and their view say; those of activations beside them are of rows, or
/// else of 128.
LibraryProduct::Scales scales_of_weights(const Geometry& geometry, const Side& b);
/// How many there are of so many rows or columns.
std::int64_t count_of_scales(LibraryProduct::Scales scales, std::int64_t rows, std::int64_t length);

/// Rounds the activations to e4m3: `rows` rows, in scratch memory; those beyond the last are the last once more.
Launch round_to_floats(const Geometry& geometry, const Side& a, std::int64_t rows, FloatsAt to,
                       LibraryProduct::Scales scales, const RenderLimits& limits);
/// Takes the weights' blocks apart, into form 0.
Launch take_floats_apart(const Geometry& geometry, const Side& b, FloatsAt to, LibraryProduct::Scales scales,
                         const RenderLimits& limits);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
