// What the loops of few rows are given: where the columns' data lies, made once per kernel because it is the same for every
// batch, and a piece of the work.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/cpu/contraction/padded_copy.h"
#include "backends/cpu/contraction/plan.h"
#include "backends/cpu/contraction/q8.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

inline constexpr std::int64_t kThinRows = 4;
/// Where columns are contiguous along k, transposing them for a panel costs as much as for these rows.
inline constexpr std::int64_t kThinRowsAlongK = 8;
/// Vectors of blocks of packed columns that are multiplied together, and columns (block_columns-inl.h).
inline constexpr int kThinBlockPieces = 4;
inline constexpr std::int64_t kThinBlockColumns = 256;
/// A row's sums of them in blocks of k, and in what is left.
inline std::int64_t thin_block_sums(std::int64_t k, std::int64_t lanes) {
  return kThinBlockPieces * ((kThinBlockColumns / kThinBlockPieces) * (k / order::kBlock + 1) + 2 * lanes);
}
/// A row of `k` numbers as they meet it; rows do not lie a power of two apart, where the first cache has few places.
inline std::int64_t thin_block_row(std::int64_t k, std::int64_t lanes) {
  return order::kBlock * (k / order::kBlock + 2 * lanes) + order::kBlock * lanes + k + 48;
}
/// Memory for their panels, and for sums and numbers of so many rows.
inline std::int64_t thin_block_bytes(std::int64_t k, std::int64_t lanes, std::int64_t panel_bytes, std::int64_t rows) {
  const std::int64_t floats = rows * (thin_block_sums(k, lanes) + thin_block_row(k, lanes));
  return kThinBlockPieces * panel_bytes + floats * static_cast<std::int64_t>(sizeof(float));
}

/// The terms are `side` taps in each of `side` lines of a plane of the copy. Taps of every step-th line and column are
/// neighbours.
struct ThinWindow {
  static constexpr int kSmallSide = 3, kLargeSide = 5;
  static constexpr int kMostSteps = 2;
  static constexpr std::int64_t kLeastLine = 4;  ///< half of the vectors of a line that is shorter than one
  int side = 0;
  int step = 1;
};

/// The columns cut into pieces of at most one vector.
struct ThinTable {
  bool along_k = false;     ///< each column is contiguous along k, and only `address`, `begin` matter
  std::int64_t stride = 1;  ///< of neighbouring columns in memory: 1 or 2
  bool full = false;        ///< every piece is a whole vector with data for every k
  std::vector<std::int64_t> k_address;
  std::vector<std::uint16_t> k_class;
  std::vector<std::int64_t> address;  ///< of each piece; along_k: of each column, padded to whole vectors
  std::vector<std::int64_t> begin;    ///< its first column; one more entry: the number of columns
  std::vector<std::uint32_t> masks;   ///< [class][piece]: memory elements with data

  // From a padded copy of an image no vector needs a mask; of all else only `k_address` matters.
  std::optional<PaddedCopy> copy;
  std::vector<PaddedCopy::Line> copied_lines;
  std::vector<std::int64_t> k_planes;  ///< source address of each plane of the copy
  std::int64_t source_begin = 0, source_count = 0;  ///< elements that a window's plane is copied from; 0: far apart
  std::int64_t lines = 1;              ///< of columns, `line` in each
  std::int64_t line = 0;
  std::int64_t line_stride = 0;  ///< from line to line in the copy
  std::optional<ThinWindow> window;  ///< for one row

  std::int64_t pieces() const { return static_cast<std::int64_t>(begin.size()) - 1; }
};

struct ThinArgs {
  const ThinTable* table = nullptr;
  const float* data = nullptr;  ///< of the columns, at the batch's address, or of line and column 0; or the copy
  /// Of columns of f16 or bf16, instead of `data`, which are contiguous along k: at the batch's address.
  const std::uint16_t* halves = nullptr;
  bool is_f16 = false;
  /// Of packed columns, instead of `data`, which are contiguous along k: their blocks, and the batch's first element.
  Encoding encoding = Encoding::dense;
  const std::byte* blocks = nullptr;
  std::int64_t first = 0;
  /// How panels of them are made, each of one block of k, and memory (thin_block_bytes).
  decltype(Q8Loops::pack) pack_blocks = nullptr;
  std::byte* packed = nullptr;
  std::int64_t packed_bytes = 0;  ///< of a panel
  /// Of columns that were packed, instead of `data`: their panels (panels.h), and the elements from one to the next,
  /// from a block of k to the next, and from k to k.
  const float* panels = nullptr;
  std::int64_t panel_stride = 0;
  std::int64_t block_stride = 0;
  std::int64_t panel_width = 0;
  bool flush = false;
  std::int64_t piece_begin = 0;
  std::int64_t piece_end = 0;
  const float* rows = nullptr;  ///< [k][row]
  std::int64_t rows_stride = 0;
  std::int64_t row_count = 1;  ///< at most kThinRows or kThinRowsAlongK
  std::int64_t k = 0;
  float* results = nullptr;  ///< rows of all columns of the pieces, with room for one more vector
  std::int64_t results_stride = 0;
  const float* next = nullptr;  ///< what to ask memory for meanwhile: the plane that is copied next
  std::int64_t next_count = 0;
  bool finish = false;  ///< ThinTable::window: results are canonical, and nothing is written behind them
};

using ThinFunction = void (*)(const ThinArgs&);

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
