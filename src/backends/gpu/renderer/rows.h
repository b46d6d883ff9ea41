// The forms of row programs that have files of their own.
#pragma once

#include "backends/gpu/renderer/program.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// Rows of more than 4096 elements: several launches, which work on the chunks of a row in parallel.
Rendered render_long_rows(const Program& program, const RenderLimits& limits);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
