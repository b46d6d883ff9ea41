// Which form a contraction takes: the one function that decides, by shapes and the device's limits.
#include <algorithm>
#include <limits>

#include "backends/gpu/renderer/contraction.h"
#include "backends/gpu/renderer/kinds.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr std::size_t kMostScratch = std::size_t{256} << 20;

std::int64_t over(std::int64_t x, std::int64_t y) {
  return (x + y - 1) / y;
}

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

std::size_t shared_bytes(const TileForm& form) {
  const int tiles = 2 * form.step * (form.rows() + form.columns() + 8);
  const int stage = (form.shared_totals ? form.rows() : 32) * (form.columns() + 4);
  return static_cast<std::size_t>(4 * (tiles + stage)) + 1024;
}

// Costs are in fused operations of one of the device's units.
double cost_of(const ContractionKernel& kernel, const Geometry& geometry, const TileForm& form,
               const RenderLimits& limits) {
  constexpr double kLaunch = 4e5;
  constexpr double kStoreBlock = 0.25;  ///< of a block's multiplications, to store and add its result
  const double area = static_cast<double>(form.rows()) * form.columns();
  const double efficiency = area >= 128 * 128 ? 1.0 : area > 64 * 64 ? 0.85 : 0.7;
  const std::int64_t blocks = std::max<std::int64_t>(over(geometry.length, kBlock), 1);
  const double length = form.split == 1 ? static_cast<double>(std::max<std::int64_t>(geometry.length, 64))
                                        : static_cast<double>(over(blocks, form.split)) * kBlock;
  const std::int64_t tiles = tiles_of(geometry, form);
  const auto rounds = static_cast<double>(over(tiles * form.split, limits.units));
  double cost = rounds * area * length / efficiency;
  if (form.split > 1) {
    if (scratch_bytes(kernel, geometry, form.rows(), form.columns()) > kMostScratch) {
      return std::numeric_limits<double>::infinity();
    }
    cost += kLaunch + kStoreBlock * static_cast<double>(blocks * tiles) * kBlock * area / limits.units;
  }
  return cost;
}

TileForm tile_form(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits) {
  TileForm best;
  if (kernel.type == ComputeType::f64 || kernel.type == ComputeType::i64) best.step = 4;
  const bool large_tiles = kernel.type == ComputeType::f32;
  const std::int64_t blocks = std::max<std::int64_t>(over(geometry.length, kBlock), 1);
  double least = std::numeric_limits<double>::infinity();
  const int step = best.step;
  for (const int subtiles_m : {1, 2}) {
    for (const int subtiles_n : {1, 2}) {
      if (subtiles_m * subtiles_n > 1 && !large_tiles) continue;
      for (std::int64_t split = 1; split == 1 || split < 2 * blocks; split *= 2) {
        TileForm form{.subtiles_m = subtiles_m, .subtiles_n = subtiles_n, .step = step};
        // No workgroup without a block.
        form.split = over(blocks, over(blocks, std::min(split, blocks)));
        form.shared_totals = subtiles_m * subtiles_n == 4;
        if (shared_bytes(form) > limits.shared_bytes) continue;
        const double cost = cost_of(kernel, geometry, form, limits);
        if (cost >= least) continue;
        least = cost;
        best = form;
      }
    }
  }
  return best;
}

}  // namespace

Rendered render_kernel(const ContractionKernel& kernel, const RenderLimits& limits) {
  for (const Instruction& step : kernel.epilogue.code) LOCKSTEP_ASSERT(step.kind != Instruction::Kind::reduce);
  if (kernel.b.numel() == 0 || kernel.m.numel() == 0 || kernel.n.numel() == 0) return {};
  const Geometry geometry = geometry_of(kernel);
  Rendered rendered;
  if (is_direct(geometry, limits)) {
    rendered.launches.push_back(render_direct(kernel, geometry, limits));
    return rendered;
  }
  if (is_skinny(kernel, geometry) && scratch_bytes(kernel, geometry, 1, 1) <= kMostScratch) {
    rendered.scratch_bytes = scratch_bytes(kernel, geometry, 1, 1);
    rendered.launches.push_back(render_skinny(kernel, geometry, limits));
    rendered.launches.push_back(render_sums(kernel, geometry, 1, 1, limits));
    return rendered;
  }
  const TileForm form = tile_form(kernel, geometry, limits);
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
