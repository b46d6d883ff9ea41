// The CUDA text of KernelText::warpgroup_halves: q8 products of many rows by weights with minima, by Hopper's tensor
// cores of f16 and tf32 (wgmma, sm_90a). What it multiplies is made, and what becomes of the sums is written, by
// renderer/contraction_q8_warpgroups.cpp.
#pragma once

namespace lockstep {
inline namespace v0 {
namespace gpu {

extern const char* const kWarpgroupHalvesText;  ///< behind kWarpgroupBytesText

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
