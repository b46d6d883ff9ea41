// Kernels of which each alone reads the result of the one before: the rows that a q8 product reads are rounded by the
// kernel that makes them, so that they are never there as f32, and no launch stands between the two.
#include <algorithm>

#include <lockstep/error.h>

#include "backends/gpu/renderer/kinds.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

using Stage = std::span<const Kernel* const>;

int left_of(const Kernel* kernel) {
  const auto* const product = std::get_if<ContractionKernel>(kernel);
  return product == nullptr ? -1 : product->a.slot;
}

int result_of(const Kernel* kernel) {
  const auto only = [](const Program& program) { return program.outputs.size() == 1 ? program.outputs[0].slot : -1; };
  if (const auto* row = std::get_if<RowKernel>(kernel)) return only(row->program);
  if (const auto* product = std::get_if<ContractionKernel>(kernel)) return only(product->epilogue);
  const auto* const attention = std::get_if<AttentionKernel>(kernel);
  return attention == nullptr ? -1 : attention->out;
}

// Products of one left operand are one.
std::vector<Stage> stages_of(Stage kernels) {
  std::vector<Stage> stages;
  for (std::size_t begin = 0, end = 1; end <= kernels.size(); ++end) {
    const int left = left_of(kernels[begin]);
    if (end < kernels.size() && left >= 0 && left_of(kernels[end]) == left) continue;
    stages.push_back(kernels.subspan(begin, end - begin));
    begin = end;
  }
  return stages;
}

std::optional<Rendered> chained(const std::vector<Stage>& stages, const RenderLimits& limits) {
  constexpr std::int64_t kFewRows = 32;
  const auto* const last = std::get_if<ContractionKernel>(stages.back().front());
  if (!limits.integer_tiles || last == nullptr || last->m.numel() <= kFewRows) return std::nullopt;
  std::vector<Rendered> all(stages.size());
  RenderLimits own = limits;
  for (std::size_t s = stages.size(); s-- > 0;) {
    const Stage stage = stages[s];
    Rendered& one = all[s];
    one = stage.size() > 1 ? render_siblings(stage, own) : render(*stage.front(), own);
    const bool rounds = std::any_of(one.launches.begin(), one.launches.end(), [](const Launch& l) { return l.rounds; });
    if (!one.forms.empty() || (own.makes.tile_rows != 0 && !rounds)) return std::nullopt;
    if (s == 0) break;
    const Stage maker = stages[s - 1];
    if (one.rounded.tile_rows == 0 || maker.size() > 1 || result_of(maker.front()) != left_of(stage.front())) {
      return std::nullopt;
    }
    own.makes = one.rounded;
    one.launches.erase(one.launches.begin());
  }
  Rendered result;
  constexpr std::size_t kAligned = 256;
  for (Rendered& one : all) {
    const auto begin = static_cast<std::int64_t>(result.scratch_bytes);
    result.scratch_bytes += (one.scratch_bytes + kAligned - 1) / kAligned * kAligned;
    for (Launch& launch : one.launches) {
      for (Patch& patch : launch.patches) {
        if (patch.kind != Patch::Kind::scratch) continue;
        patch.offset += patch.index == 0 ? begin : static_cast<std::int64_t>(result.scratch_bytes);
        patch.index = 0;
      }
      result.launches.push_back(std::move(launch));
    }
  }
  return result;
}

}  // namespace

bool runs_together(std::span<const Kernel* const> kernels, const RenderLimits& limits) {
  const std::vector<Stage> stages = stages_of(kernels);
  return stages.size() > 1 ? chained(stages, limits).has_value() : are_siblings(kernels, limits);
}

Rendered render_together(std::span<const Kernel* const> kernels, const RenderLimits& limits) {
  const std::vector<Stage> stages = stages_of(kernels);
  if (stages.size() == 1) return render_siblings(kernels, limits);
  std::optional<Rendered> result = chained(stages, limits);
  // They were asked for with more threads.
  if (!result) throw BackendError("kernels that run together need workgroups of 256 threads");
  return std::move(*result);
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
