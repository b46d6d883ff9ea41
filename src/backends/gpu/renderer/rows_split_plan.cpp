#include "backends/gpu/renderer/rows_split_plan.h"

#include <algorithm>

namespace lockstep {
inline namespace v0 {
namespace gpu {

namespace {

constexpr std::int64_t kColumnsOfGroup = 32;
constexpr int kMostSlices = 8;
constexpr std::int64_t kGroupsOfUnit = 3;  ///< so many keep a unit busy
// Of largest and smallest elements, in whatever order: what a chunk's threads read at once.
constexpr int kShortChunk = 512;

bool has_extrema_alone(const Program& program) {
  bool any = false;
  for (const Instruction& step : program.code) {
    if (step.kind != Instruction::Kind::reduce) continue;
    if (step.reduce == ReduceOp::sum || step.reduce == ReduceOp::prod || step.reduce == ReduceOp::dot) return false;
    any = true;
  }
  return any;
}

}  // namespace

SplitPlan::SplitPlan(const Program& of, const RenderLimits& with, bool columns)
    : program(of), limits(with), space(Space::of(of, true)) {
  const auto chunks_of = [&](std::int64_t size) { return (space.length + size - 1) / size; };
  if (!columns && has_extrema_alone(of) && space.row_count * chunks_of(kChunk) <= limits.units) chunk = kShortChunk;
  chunks = chunks_of(chunk);
  if (columns) {
    const std::int64_t groups = (space.row_count + kColumnsOfGroup - 1) / kColumnsOfGroup * chunks;
    while (slices < kMostSlices && groups * slices < kGroupsOfUnit * limits.units) slices *= 2;
  }
  for (int i = 0; i < size(); ++i) {
    int phase = 0;
    for (const int operand : {code(i).a, code(i).b, code(i).c}) {
      if (operand < 0) continue;
      const bool reduced = code(operand).kind == Instruction::Kind::reduce;
      phase = std::max(phase, phases[static_cast<std::size_t>(operand)] + (reduced ? 1 : 0));
    }
    phases.push_back(phase);
    if (code(i).kind == Instruction::Kind::reduce) last_reductions = std::max(last_reductions, phase);
  }
  last_phase = std::max(last_reductions, 0);
  for (const Output& output : program.outputs) {
    if (!is_row(output.value)) last_phase = std::max(last_phase, phases[static_cast<std::size_t>(output.value)]);
  }
  parts.resize(program.code.size());
  values.resize(program.code.size());
  for (int i = 0; i < size(); ++i) {
    if (code(i).kind != Instruction::Kind::reduce) continue;
    parts[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(scratch_bytes);
    scratch_bytes += static_cast<std::size_t>(8 * std::max(3, slices) * space.row_count * chunks);
    values[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(scratch_bytes);
    scratch_bytes += static_cast<std::size_t>(8 * space.row_count);
  }
}

std::vector<int> SplitPlan::reductions(int of_phase) const {
  std::vector<int> result;
  for (int i = 0; i < size(); ++i) {
    if (code(i).kind == Instruction::Kind::reduce && phase(i) == of_phase) result.push_back(i);
  }
  return result;
}

std::vector<int> SplitPlan::outputs(int of_phase) const {
  std::vector<int> result;
  for (std::size_t o = 0; o < program.outputs.size(); ++o) {
    const int value = program.outputs[o].value;
    if (!is_row(value) && phase(value) == of_phase) result.push_back(static_cast<int>(o));
  }
  return result;
}

std::set<int> SplitPlan::row_outputs() const {
  std::set<int> result;
  for (std::size_t o = 0; o < program.outputs.size(); ++o) {
    if (is_row(program.outputs[o].value)) result.insert(static_cast<int>(o));
  }
  return result;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
