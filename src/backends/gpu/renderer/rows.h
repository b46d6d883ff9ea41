// The forms of row programs that have files of their own.
#pragma once

#include "backends/gpu/renderer/program.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// What forms share: the numbers [0, n), how many workgroups `items` need, and a launch of what was written.
std::set<int> all_of(std::size_t n);
std::uint32_t groups_for(std::int64_t items, std::int64_t per_group, const RenderLimits& limits);
Launch launch(Lines& body, const ProgramWriter& writer, const Words& words, std::uint32_t groups,
              const RenderLimits& limits);

/// Rows of up to 4096 elements, with reductions.
Launch render_team(const Program& program, const RenderLimits& limits);
/// Whether a row's elements are read but once, and there are enough rows for render_long_rows to keep a device busy
/// with as few threads per row as there are lanes.
bool prefers_streams(const Program& program, const RenderLimits& limits);
/// Whether neighbours in memory are of different rows, and there are enough of them for render_long_rows.
bool prefers_columns(const Program& program, const RenderLimits& limits);
/// Rows of any length: work on their chunks of 4096 in parallel, and with more than one, several launches.
Rendered render_long_rows(const Program& program, const RenderLimits& limits);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
