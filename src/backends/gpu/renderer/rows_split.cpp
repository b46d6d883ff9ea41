// Row programs whose rows are longer than a chunk of 4096 elements, in the order of docs/numerics.md section 4: chunks
// are reduced in parallel by teams that follow the 64 lanes, a second kernel reduces the chunks' results by R again,
// and later phases of the program read the row values that came of it. Results wait in scratch memory, one 64-bit word
// each. Shorter rows, too, where they are read but once and there are many of them: a chunk's result is its row's.
#include <algorithm>

#include "backends/gpu/renderer/reduction.h"
#include "backends/gpu/renderer/rows.h"
#include "backends/gpu/renderer/rows_split.h"
#include "backends/gpu/renderer/rows_split_plan.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

using Kind = Instruction::Kind;

}  // namespace

bool prefers_streams(const Program& program, const RenderLimits& limits) {
  constexpr std::int64_t kShort = 256;  // elements: render_team has a thread or few for such rows
  const SplitPlan plan(program, limits);
  const Space& space = plan.space;
  if (space.rows == 0 || space.rows == space.shape.rank() || space.length <= kShort || plan.chunks > 1) return false;
  if (plan.last_reductions != 0 || plan.last_phase != 0) return false;
  for (const int r : plan.reductions(0)) {
    if (!Reduction(plan.code(r), r, plan.code(r).type, space.wide).is_ordered()) return false;
  }
  Words words;
  ProgramWriter writer(program, space, words);
  return writer.choose_vectors() &&
         space.row_count * (SplitKernel::kLanes / writer.width()) >= std::int64_t{2} * limits.threads * limits.units;
}

bool prefers_columns(const Program& program, const RenderLimits& limits) {
  if (limits.threads != SplitKernel::kColumns * SplitKernel::kColumnLanes) return false;
  constexpr std::int64_t kFew = 1024;  // chunks: fewer would leave a GPU without work
  const Space space = Space::of(program, true);
  const std::int64_t chunks = (space.length + kChunk - 1) / kChunk;
  constexpr std::int64_t kShortestSplit = 2 * SplitKernel::kColumnLanes;  // shorter rows leave threads without work
  if (space.rows == 0 || space.rows == space.shape.rank() || space.length < kShortestSplit) return false;
  if (space.shape[space.rows - 1] < SplitKernel::kColumns || space.row_count * chunks < kFew) return false;
  bool has_columns = false;
  for (const View& view : space.inputs) {
    if (!view.bounds.empty() || view.strides[space.shape.rank() - 1] == 1) return false;
    has_columns = has_columns || view.strides[space.rows - 1] == 1;
  }
  bool reduced = false;  // a value that is read once: what needs it again would be read twice
  for (const Instruction& step : program.code) {
    if (step.kind == Kind::reduce) {
      if (!Reduction(step, 0, step.type, space.wide).is_ordered()) return false;
      reduced = true;
    }
  }
  return has_columns && reduced;
}

Rendered render_long_rows(const Program& program, const RenderLimits& limits) {
  const bool columns = prefers_columns(program, limits);
  const SplitPlan plan(program, limits, columns);
  Rendered rendered;
  rendered.scratch_bytes = plan.scratch_bytes;
  for (int phase = 0; phase <= plan.last_phase; ++phase) {
    const bool reduces = !plan.reductions(phase).empty();
    if (reduces || !plan.outputs(phase).empty()) {
      SplitKernel kernel(plan);
      rendered.launches.push_back(columns ? kernel.columns(phase) : kernel.chunks(phase));
    }
    if ((reduces && plan.has_parts()) || (phase == 0 && plan.last_reductions < 0 && !plan.row_outputs().empty())) {
      rendered.launches.push_back(SplitKernel(plan).sums(reduces ? phase : -1));
    }
  }
  return rendered;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
