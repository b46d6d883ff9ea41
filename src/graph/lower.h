// Turns one fused group into the kernel that computes it: entries become instructions, reads of other values become
// loads, values that others need become outputs.
#pragma once

#include "graph/fusion.h"
#include "graph/schedule.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

Step lower(const std::vector<Entry>& entries, const Fusion& fusion, int group);

/// Whether the bits of an element are free of f32/bf16 subnormals, so that arithmetic can read them as they are.
bool is_canonical(DType dtype, std::uint64_t bits);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
