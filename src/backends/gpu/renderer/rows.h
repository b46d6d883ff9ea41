// The forms of row programs that have files of their own.
#pragma once

#include "backends/gpu/renderer/program.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// Whether neighbours in memory are of different rows, and there are enough of them for render_long_rows.
bool prefers_columns(const Program& program);
/// Rows of more than 4096 elements: several launches, which work on the chunks of a row in parallel.
Rendered render_long_rows(const Program& program, const RenderLimits& limits);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
