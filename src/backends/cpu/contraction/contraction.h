// Contractions on the CPU: matmul, linear, attention's products and every convolution, in the canonical order of
// docs/numerics.md section 6. The bits do not depend on the instruction set, the thread count or the tiles.
//
// How it works, and where to read it:
//   geometry.h      an operand as three groups of dimensions (batch, outer, k) with checked coordinates
//   plan.h          a kernel normalised: which operand is broadcast, which is vectorised, where results go
//   packing-inl.h   operands are copied, block by block, into panels; reading goes through the view (no im2col)
//   tile-inl.h      the register tile that multiplies two panels
//   window-inl.h    the register tile over columns that stay where they are (convolutions of few output channels)
//   in_place-inl.h  the register tile over rows that stay where they are (weight gradients of convolutions)
//   thin-inl.h      a few rows: lanes over the outputs, straight from the view (depthwise, vector times matrix)
//   epilogue.h      blocks of results as the row program wants them
//   driver.cpp      blocks and threads
#pragma once

#include <memory>

#include "backends/backend.h"
#include "backends/cpu/isa.h"
#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {

/// Made ready for selected_isa(). Runs spread over the thread pool where that pays.
std::unique_ptr<Executable> compile_contraction(const ContractionKernel& kernel);
/// For one of available_isas().
std::unique_ptr<Executable> compile_contraction(const ContractionKernel& kernel, Isa isa);

}  // namespace v0
}  // namespace lockstep
