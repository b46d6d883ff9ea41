// How a contraction is cut into blocks: which fit the caches, keep every thread busy, and repeat little packing.
#pragma once

#include <cstdint>

#include "backends/cpu/contraction/kernels.h"
#include "backends/cpu/contraction/plan.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

/// Multiply-adds below which waking a thread costs more than it saves.
inline constexpr double kSerialWork = 400e3;

struct Tiling {
  std::int64_t block_rows = 0;     ///< multiple of tile_rows
  std::int64_t block_columns = 0;  ///< multiple of tile_columns
  std::int64_t row_blocks = 0;
  std::int64_t column_blocks = 0;
  bool pack_rows_once = false;  ///< before the blocks are computed, for all of them
  bool pack_columns_once = false;
  bool serial = true;
};

Tiling choose_tiling(const Plan& plan, const KernelSet& kernels, int threads);

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
