// Panels: a block of an operand (some rows or columns, up to kBlock k) is stored as panels of `width` lanes, element
// [k][lane], lanes past the end zero. `width` is tile_rows for the operand that is broadcast, tile_columns for the
// other. Here: what the functions that fill panels and multiply them are given, and what packing walks over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/contraction/destination.h"
#include "backends/cpu/contraction/side.h"
#include "kernels/order.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

/// Terms of one partial sum (docs/numerics.md section 6): never a tuning parameter.
inline constexpr std::int64_t kBlock = order::kBlock;
inline constexpr int kMaxWidth = 32;
/// Bytes behind every panel that whole-vector stores may touch.
inline constexpr std::int64_t kPanelSlack = 64;
/// Row stride of the staging area for operands that are contiguous along k; no power of two, for the cache's sake.
inline constexpr std::int64_t kStageStride = kBlock + 16;

/// A stretch of one innermost dimension.
struct Piece {
  std::int64_t begin = 0;  ///< in its panel or block
  std::int64_t length = 0;
  Position position;
};

/// Working memory of the packing functions; one per thread.
struct PackWorkspace {
  std::int64_t k_address[kBlock];
  std::uint16_t k_class[kBlock];  ///< into `classes`: k with equal coordinates share their masks
  std::uint16_t next_class[kBlock];
  Position classes[kBlock];
  int class_count = 0;
  Piece pieces[kBlock];
  std::uint32_t masks[kBlock * kMaxWidth];
  alignas(64) std::byte stage[kMaxWidth * kStageStride * 8];
  alignas(64) std::byte zeros[kStageStride * 8];
  alignas(64) float f32_panel[kMaxWidth * kBlock + kPanelSlack];  ///< of which blocked.h makes integers
};

struct PackArgs {
  const Side* side = nullptr;
  const std::byte* data = nullptr;
  Position batch;
  std::int64_t outer_begin = 0;
  std::int64_t outer_count = 0;
  std::int64_t k_begin = 0;
  std::int64_t k_count = 0;  ///< at most kBlock
  void* panels = nullptr;
  std::int64_t panel_stride = 0;  ///< elements between panels
  PackWorkspace* workspace = nullptr;
};

struct MultiplyArgs {
  const void* row_panels = nullptr;
  std::int64_t row_panel_stride = 0;
  const void* column_panels = nullptr;
  std::int64_t column_panel_stride = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t k_count = 0;
  void* results = nullptr;
  std::int64_t results_stride = 0;
  bool first = true;    ///< store the partial sums; otherwise add them to what is there
  bool finish = false;  ///< make the results canonical
  bool padded = false;  ///< results may be written up to the next multiple of tile_columns
  Destination destination{};  ///< of the last block of k
};

/// Addresses and classes of k in [k_begin, k_begin + k_count), for operands read along outer.
void prepare_k_block(const Geometry& geometry, std::int64_t k_begin, std::int64_t k_count, PackWorkspace& workspace);
/// The same over the whole of k; false if there are too many classes to tabulate.
bool classify_k(const Geometry& geometry, std::int64_t k_count, std::vector<std::int64_t>& k_address,
                std::vector<std::uint16_t>& k_class, std::vector<Position>& classes);
/// Cuts [begin, begin + count) of a group into pieces of at most `longest` elements. Returns how many.
int cut_pieces(const Group& group, int bounds, std::int64_t begin, std::int64_t count, std::int64_t longest,
               Piece* pieces);

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
