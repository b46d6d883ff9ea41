// Which form a contraction takes: the one function that decides, by shapes and the device's limits.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "backends/gpu/renderer/contraction.h"
#include "backends/gpu/renderer/contraction_convolution.h"
#include "backends/gpu/renderer/contraction_digits.h"
#include "backends/gpu/renderer/contraction_fast.h"
#include "backends/gpu/renderer/kinds.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr std::size_t kMostScratch = std::size_t{256} << 20;

std::int64_t tiles_of(const Geometry& geometry, const TileForm& form) {
  return geometry.batches * over(geometry.rows, form.rows()) * over(geometry.columns, form.columns());
}

// A workgroup that is too small for tiles; a few outputs per batch, or a side too narrow for tiles, and a k that one
// thread can walk along.
bool is_direct(const Geometry& geometry, const RenderLimits& limits) {
  if (limits.threads < kTileThreads) return true;
  constexpr std::int64_t kNarrow = 16;
  constexpr std::int64_t kLongest = 512;
  const std::int64_t least = std::min(geometry.rows, geometry.columns);
  return geometry.length <= kLongest && (least < kNarrow || geometry.rows * geometry.columns <= 1024);
}

/// A shape of tiles, and what of a unit's arithmetic it uses with one workgroup there (`alone`) and with as many as fit
/// (`full`); measured on an H200, relative to the best.
struct Choice {
  TileForm form;
  double alone, full;
};
const Choice kForms[] = {
    {{.subtiles_m = 2, .subtiles_n = 2, .shared_totals = true, .groups_per_unit = 2}, 0.87, 1.0},
    {{.teams_m = 1, .subtiles_m = 2, .subtiles_n = 2, .shared_totals = true, .groups_per_unit = 3}, 0.7, 0.9},
    {{.teams_n = 2, .subtiles_m = 2, .subtiles_n = 2, .shared_totals = true, .groups_per_unit = 3}, 0.65, 0.87},
    {{.subtiles_n = 2}, 0.55, 0.7},
    {{.subtiles_m = 2}, 0.55, 0.7},
    {{}, 0.5, 0.65},
};

std::size_t shared_bytes(const TileForm& form) {
  const int tiles = 2 * form.step * (form.rows() + form.columns() + 8);
  const int stage = (form.shared_totals ? form.rows() : 32) * (form.columns() + 4);
  const int fixed = static_cast<int>(kMostFixed) * form.rows();
  return static_cast<std::size_t>(4 * (tiles + stage + fixed)) + 1024;
}

// Costs are in fused operations of one of the device's units.
double cost_of(const ContractionKernel& kernel, const Geometry& geometry, const Choice& shape, const TileForm& form,
               const RenderLimits& limits) {
  constexpr double kLaunch = 1.2e6;
  constexpr double kStoreBlock = 0.25;  ///< of a block's multiplications, to store and add its result
  constexpr double kBeginning = 32;     ///< of k: until the first tiles are there, and for the results
  const double area = static_cast<double>(form.rows()) * form.columns();
  const std::int64_t blocks = std::max<std::int64_t>(over(geometry.length, kBlock), 1);
  const double length = kBeginning + (form.split == 1 ? static_cast<double>(geometry.length)
                                                      : static_cast<double>(over(blocks, form.split)) * kBlock);
  const std::int64_t tiles = tiles_of(geometry, form);
  // Rounds of as many workgroups as a unit runs at once: the last one is not spread evenly, since units take the next
  // workgroups as soon as they are done, several at a time.
  const std::int64_t resident = std::max(form.groups_per_unit, 2);  // workgroups that a unit runs at once
  const std::int64_t groups = tiles * form.split;
  const std::int64_t room = limits.units * resident;
  const std::int64_t each = groups > room ? over(groups, room) * resident : over(groups, limits.units);
  const std::int64_t rest = each % resident;
  const double share = rest == 0 ? shape.full
                                 : shape.alone + (shape.full - shape.alone) * static_cast<double>(rest - 1) /
                                                     static_cast<double>(resident - 1);
  double cost = area * length * static_cast<double>(each) / share;
  if (form.split > 1) {
    if (scratch_bytes(kernel, geometry, form.rows(), form.columns()) > kMostScratch) {
      return std::numeric_limits<double>::infinity();
    }
    cost += kLaunch + kStoreBlock * static_cast<double>(blocks * tiles) * kBlock * area / limits.units;
  }
  return cost;
}

TileForm tile_form(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits,
                   bool may_split) {
  TileForm best;
  const std::int64_t blocks = std::max<std::int64_t>(over(geometry.length, kBlock), 1);
  double least = std::numeric_limits<double>::infinity();
  // What is read one by one keeps fewer elements on their way in registers.
  const auto in_vectors = [&](const Side& side) {
    return side.has_own_vectors(geometry) || side.has_k_vectors(geometry);
  };
  const bool vectors = in_vectors(Side("a", kernel.a, geometry.a, geometry, true)) &&
                       in_vectors(Side("b", kernel.b_operand, geometry.b, geometry, false));
  for (const Choice& shape : kForms) {
    TileForm form = shape.form;
    const bool is_long = kernel.type == ComputeType::f64 || kernel.type == ComputeType::i64;
    if (is_long) form.step = 4;
    if (form.shared_totals && !vectors) form.step = 8;
    if (form.subtiles_m * form.subtiles_n > 1 && kernel.type != ComputeType::f32) continue;
    if (shared_bytes(form) > limits.shared_bytes) continue;
    for (std::int64_t split = 1; split == 1 || (may_split && split < 2 * blocks); split *= 2) {
      // No workgroup without a block.
      form.split = over(blocks, over(blocks, std::min(split, blocks)));
      const double cost = cost_of(kernel, geometry, shape, form, limits);
      if (cost >= least) continue;
      least = cost;
      best = form;
    }
  }
  return best;
}

}  // namespace

TileForm whole_tile_form(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits) {
  return tile_form(kernel, geometry, limits, false);
}

Rendered render_kernel(const ContractionKernel& kernel, const RenderLimits& limits) {
  for (const Instruction& step : kernel.epilogue.code) LOCKSTEP_ASSERT(step.kind != Instruction::Kind::reduce);
  if (kernel.b.numel() == 0 || kernel.m.numel() == 0 || kernel.n.numel() == 0) return {};
  const Geometry geometry = geometry_of(kernel);
  if (kernel.numerics == Numerics::blocked) {
    if (is_for_integer_tiles(geometry, limits)) return render_integer_tiles(kernel, geometry, limits);
    if (is_for_matrix_tiles(geometry, limits)) return render_matrix_tiles(kernel, geometry, limits);
    if (is_for_digit_tiles(geometry, limits)) return render_digit_tiles(kernel, geometry, limits);
    return render_blocked(kernel, geometry, limits);
  }
  if (kernel.numerics == Numerics::q8) return render_q8(kernel, geometry, limits);
  Rendered rendered;
  if (std::optional<Launch> staged = render_staged(kernel, geometry, limits)) {
    rendered.launches.push_back(std::move(*staged));
    return rendered;
  }
  if (is_direct(geometry, limits)) {
    rendered.launches.push_back(render_direct(kernel, geometry, limits));
    return rendered;
  }
  if (std::optional<Rendered> few = render_packed_few(kernel, geometry, limits)) return std::move(*few);
  if (std::optional<Rendered> streamed = render_streamed(kernel, geometry, limits)) return std::move(*streamed);
  if (is_skinny(kernel, geometry) && scratch_bytes(kernel, geometry, 1, 1) <= kMostScratch) {
    return render_skinny(kernel, geometry, limits);
  }
  if (kernel.numerics == Numerics::fast && geometry.length > 0) {
    if (std::optional<Rendered> convolution = render_convolution(kernel, limits)) return std::move(*convolution);
    return render_fast(kernel, limits);
  }
  const TileForm form = tile_form(kernel, geometry, limits, true);
  rendered.launches.push_back(render_tiles(kernel, geometry, form, limits));
  if (form.split > 1) {
    rendered.scratch_bytes = scratch_bytes(kernel, geometry, form.rows(), form.columns());
    rendered.launches.push_back(render_sums(kernel, geometry, form.rows(), form.columns(), limits));
  }
  return rendered;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
