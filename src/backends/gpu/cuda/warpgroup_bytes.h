// The CUDA text of KernelText::warpgroup_bytes: q8 products of many rows by Hopper's integer tensor cores (wgmma,
// sm_90a). What it multiplies is made, and what becomes of the sums is written, by
// renderer/contraction_q8_warpgroups.cpp.
#pragma once

namespace lockstep {
inline namespace v0 {
namespace gpu {

extern const char* const kWarpgroupBytesText;

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
