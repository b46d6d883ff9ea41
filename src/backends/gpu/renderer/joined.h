// Several launches that do not need each other as one: each has some of its workgroups, and a branch of its text.
#pragma once

#include <optional>
#include <span>

#include "backends/gpu/source.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// None where workgroups differ in what a text says of all of them, or need too much together.
std::optional<Launch> joined(std::span<const Launch> launches, const RenderLimits& limits);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
