// Contractions in fast numerics (docs/numerics.md section 13): by the vendor's library, between kernels of ours that
// copy what it cannot read as it lies, and that run the epilogue where that is more than one rounding.
#pragma once

#include "backends/gpu/renderer/contraction.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// Not for what is `direct` or `skinny`, whose exact kernels are as fast, nor for an empty k.
Rendered render_fast(const ContractionKernel& kernel, const RenderLimits& limits);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
