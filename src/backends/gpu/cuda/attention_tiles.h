// The CUDA text of KernelText::attention_tiles: attention in blocked numerics, and its gradients, on integer tensor
// cores (mma.sync, sm_80), without scores in memory. renderer/attention_blocked.cpp says what calls it.
#pragma once

#include <string>

namespace lockstep {
inline namespace v0 {
namespace gpu {

std::string attention_tiles_text();

// Its parts, in their order; the passes over rows and keys stand in attention_tiles.cpp, before the last one.
extern const char* const kAttentionProductsText;  ///< digits in registers and their products
extern const char* const kAttentionSoftmaxText;   ///< which rows a warp has, their sums and weights
extern const char* const kAttentionDigitsText;    ///< of operands, in memory

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
