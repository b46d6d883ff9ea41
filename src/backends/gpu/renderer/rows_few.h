// Rows of a few elements of which the extremum or its position is wanted, as those of max pools: a thread computes a
// whole row, whose elements are so many operands of `maximum`, in registers.
#pragma once

#include <optional>

#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// The same without reductions and without inner dimensions; nothing where rows are longer, something else than their
/// extremum is wanted, or elements of f32 or bf16 may be tiny, which `maximum` makes zero. The winner is the first one in
/// either way (docs/numerics.md section 4).
std::optional<Program> unrolled_extrema(const Program& program);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
