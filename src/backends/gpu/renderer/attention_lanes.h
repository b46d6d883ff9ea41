// What exact attention's kernels share: a row's sums have 64 lanes (docs/numerics.md section 5), and each lane has a
// thread of a workgroup of 256, whose teams of 64 have a row each.
#pragma once

#include "backends/gpu/renderer/program.h"
#include "kernels/order.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

constexpr int kLaneThreads = kMaskedAttentionThreads;
constexpr int kLaneTeams = kLaneThreads / order::kLanes;

/// Value[t], t < `passes`, of each thread as a lane, becomes that of all lanes of its team: by halving, as the order of
/// a sum has it. Needs `thread_id` and what add_lanes adds. All threads.
void join_lanes(Lines& lines, int passes, const char* value, const char* operation);
void add_lanes(KernelText& text, int passes);

/// FUNCTION float exponential_of(float score, float largest): canonical, of the canonical distance.
extern const char* const kExponentialText;

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
