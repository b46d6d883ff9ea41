// Some rows of a kernel, for those who check a sample of what it computes.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// The kernel for `count` neighbouring places of its outermost dimension of rows, from a place that `draw` chooses;
/// what it computes lies where it lies in the whole. Nothing where it has no more places than that, or its rows depend
/// on each other (irregular kernels).
std::optional<Kernel> some_rows(const Kernel& kernel, std::int64_t count, std::uint64_t draw);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
