// Contractions in q8 numerics (docs/numerics.md section 14): products of activations, rounded to 8 bits, with packed
// weights. What the instruction sets' loops (q8_tile-inl.h) are given, and how weights lie in panels.
//
// A panel has one column per lane of a vector: no sum ever goes across lanes. Of every block in memory, for all lanes:
// the scales, the offsets, the groups' factors and shares (each only where the encoding has them), then for each 32 k
// the codes; factors, shares and codes with four neighbours along k of a lane together.
#pragma once

#include <cstddef>
#include <cstdint>

#include <lockstep/encoding.h>

#include "backends/cpu/isa.h"
#include "kernels/order.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

/// 32 activations of a row, along k.
struct alignas(64) Q8Activations {
  std::int8_t codes[order::kQ8Block];
  float scale;
  /// What makes up for codes of weights that were raised to be unsigned, of each group of 16, or of all in the first:
  /// as the instruction set's products take it (q8_dots-inl.h, shift_of).
  std::int32_t shifts[2];
  float sums[2];  ///< of codes, of each group of 16, or of all in the first
};

/// Results of some rows (at most Q8Loops::rows) and one panel of columns, over all of k.
struct Q8TileArgs {
  const Q8Activations* rows = nullptr;
  std::int64_t row_stride = 0;  ///< blocks from one row to the next
  std::int64_t row_count = 0;
  const std::byte* panel = nullptr;
  std::int64_t blocks = 0;  ///< of 32
  bool careful = false;     ///< products of scales may be too small for normal numbers
  float* results = nullptr;
  std::int64_t results_stride = 0;
};

/// Results of one row and as many columns as a panel has, over all of k. Memory is read fastest where columns lie far
/// apart and the next call's follow each of them.
struct Q8InPlaceArgs {
  const Q8Activations* row = nullptr;
  const std::byte* weights = nullptr;
  const std::int64_t* columns = nullptr;  ///< the elements of the weights that they begin at
  std::int64_t blocks = 0;                ///< of 32
  bool careful = false;                   ///< products of scales may be too small for normal numbers
  std::int64_t next = 0;                  ///< bytes from a column's end to what its lane has in the next call
  float* results = nullptr;
};

/// What a panel has of each column.
struct Q8PanelForm {
  int zero = 0;          ///< what was added to codes
  bool nibbles = false;  ///< codes lie two to a byte, code i + 16 above code i
  bool factors = false, shares = false, offsets = false;
  bool large = false;  ///< these are of 256 k, else of 32
  int groups = 1;      ///< of 32 k
};

/// Results of some rows and panels, over all of k; no product of scales is too small for a normal number. Up to
/// kQ8RowsTogether rows, the last among them, are read whole.
struct Q8UnitArgs {
  const Q8PanelForm* form = nullptr;
  Q8TileArgs tile;  ///< all rows, and the first panel
  std::int64_t panels = 0;
  std::int64_t panel_bytes = 0;  ///< from one panel to the next
};
inline constexpr std::int64_t kQ8RowsTogether = 16;

/// One encoding's loops for one instruction set.
struct Q8Loops {
  int lanes = 1;  ///< columns of a panel
  int rows = 1;   ///< of a tile
  /// Bytes of a panel of so many blocks of 32.
  std::int64_t (*panel_bytes)(std::int64_t blocks) = nullptr;
  /// Fills a panel with the columns that begin at these elements of the weights.
  void (*pack)(const std::byte* weights, const std::int64_t* columns, std::int64_t blocks, std::byte* panel) = nullptr;
  /// Rounds a row of 32 * blocks floats. Returns whether a scale is too small to be multiplied without care.
  bool (*quantize)(const float* row, std::int64_t blocks, Q8Activations* to) = nullptr;
  void (*multiply)(const Q8TileArgs& args) = nullptr;
  void (*multiply_in_place)(const Q8InPlaceArgs& args) = nullptr;  ///< null: weights are always packed
  void (*multiply_unit)(const Q8UnitArgs& args) = nullptr;         ///< of more rows than a tile; null: tile by tile
  Q8PanelForm form{};
};

const Q8Loops& q8_loops(Encoding encoding, Isa isa);
/// Those of AMX (q8_amx_kernels.cpp).
const Q8Loops& q8_amx_loops(Encoding encoding);
/// Those of NEON with dot products (q8_sdot_kernels.cpp).
const Q8Loops& q8_sdot_loops(Encoding encoding);
/// Those with the panels of other contractions, as wide as an instruction set's vectors: only for packing.
const Q8Loops& block_panels(Encoding encoding, Isa isa);

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
