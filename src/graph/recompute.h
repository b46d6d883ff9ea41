// Values that kernels compute again where they read them, as that moves fewer bytes than storing them: f32 made of
// 16-bit values, such as those that a normalisation widens, or by one cheap op of what is read anyway, such as the
// products in a normalisation's gradient.
#pragma once

#include <vector>

#include "graph/entry.h"
#include "graph/groups.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// What a value that is computed again may take: a cheap op counts as 1, others as kDearOp, casts as nothing.
inline constexpr int kMostAgain = 10;
inline constexpr int kDearOp = 6;
/// Values whose elements are this many times fewer cost nothing to load.
inline constexpr std::int64_t kFewer = 16;

/// Sets `recomputed`, and what has to be stored now and what has not.
void choose_recomputed(const std::vector<Entry>& entries, Fusion& fusion);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
