// Makes the plan of a contraction: who supplies the rows. Here rather than in plan.h, because the ways that are asked
// whether they suit a plan include that.
#pragma once

#include "backends/cpu/contraction/kernels.h"
#include "backends/cpu/contraction/plan.h"
#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

/// Roles are chosen for the fastest of the ways in contraction.h that the instruction set has; the width of its vectors and
/// of its register tile decide who supplies the rows.
Plan make_plan(const ContractionKernel& kernel, const KernelSet& kernels);

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
