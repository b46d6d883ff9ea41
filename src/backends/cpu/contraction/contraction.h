// Contractions on the CPU: matmul, linear, attention's products and every convolution, in the canonical order of
// docs/numerics.md section 6. The bits do not depend on the instruction set, the thread count or the tiles.
//
// How it works, and where to read it:
//   geometry.h          an operand as three groups of dimensions (batch, outer, k) with checked coordinates
//   side.h              one operand with its geometry, and how its panels are filled
//   plan.h              a kernel normalised: which operand is broadcast, which is vectorised, where results go
//   planner.h           makes it, asking the ways which suits
//   panels.h            blocks of operands side by side
//   padded_copy.h       a plane with its padding written out, for the ways that read it many times
//   images.h            the images of a convolution, where they are or so copied
//   packing-inl.h       operands are copied, block by block, into panels; reading goes through the view (no im2col)
//   tile-inl.h          the register tile that multiplies two panels
//   epilogue.h          blocks of results as the row program wants them
//   way.h               what the ways share; compile_contraction takes the first that suits a kernel:
//   thin_way.cpp        a few rows: lanes over the outputs, straight from the view (depthwise, vector times matrix);
//                       where that is: thin.h, how it multiplies: thin-inl.h
//   lines_way.cpp       columns stay where they are (convolutions of few output channels): lines.h, lines-inl.h
//   direct_way.cpp      pixels stay where they are (other convolutions): direct.h, direct-inl.h
//   in_place_way.cpp    rows stay where they are (weight gradients of convolutions): in_place.h, in_place-inl.h
//   packed_way.cpp      everything else: both operands packed, in blocks that tiling.h chooses; and all contractions in
//                       blocked numerics, whose panels hold integers: blocked.h; and
//                       all of integers of at most 16 bits, multiplied in pairs: pairs.h
//   q8_way.cpp          those in q8 numerics: q8.h, q8_tile-inl.h; how weights are packed: q8_panel-inl.h
#pragma once

#include <memory>

#include "backends/backend.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/kept_panels.h"
#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {

/// Made ready for selected_isa(). Runs spread over the thread pool where that pays.
std::unique_ptr<Executable> compile_contraction(const ContractionKernel& kernel);
/// For one of available_isas(). `kept`: where packed forms of values that come again are kept; null: nowhere.
std::unique_ptr<Executable> compile_contraction(const ContractionKernel& kernel, Isa isa,
                                                std::shared_ptr<KeptPanels> kept = nullptr);

/// Backend::runs_together, and what compile_all makes of such kernels.
bool runs_together(const KernelList& products, Isa isa);
std::unique_ptr<Executable> compile_together(const KernelList& products, Isa isa);

}  // namespace v0
}  // namespace lockstep
