// The CUDA text of KernelText::attention_tiles: attention in blocked numerics, and its gradients, on integer tensor
// cores (mma.sync, sm_80), without scores in memory. renderer/attention_blocked.cpp says what calls it.
#pragma once

namespace lockstep {
inline namespace v0 {
namespace gpu {

extern const char* const kAttentionTilesText;

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
