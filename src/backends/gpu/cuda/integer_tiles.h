// The CUDA text of KernelText::integer_tiles: products of tiles of digits on Hopper's integer tensor cores (wgmma,
// sm_90a). What it multiplies is made by renderer/contraction_digits.cpp, what becomes of the sums is written by
// renderer/contraction_integer_tiles.cpp.
#pragma once

namespace lockstep {
inline namespace v0 {
namespace gpu {

extern const char* const kIntegerTilesText;

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
