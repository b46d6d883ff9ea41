// What the forms of blocked products have in common whose threads wait for products of bytes
// (contraction_digit_tiles.cpp, contraction_matrix_tiles.cpp): a workgroup has tiles of 128 x 64 outputs, of which a
// thread keeps the sums of 32, and multiplies digits that were made before (contraction_digits.h).
#pragma once

#include <functional>
#include <string>

#include "backends/gpu/renderer/contraction_digits.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

constexpr int kByteThreads = 256;
constexpr int kTileColumns = 64;    ///< of a tile, of kDigitRows rows
constexpr int kThreadOutputs = 32;  ///< of a thread
constexpr int kBlockChunks = 8;     ///< of 16 bytes: a block of k of a row of digits
constexpr int kPlaneChunks = kDigitRows * kBlockChunks;
constexpr int kPassedRows = 64;  ///< results on their way out, through shared memory
constexpr int kPassedStride = kTileColumns + 4;

std::int64_t byte_tiles(const Geometry& geometry, const DigitLayout& layout);
/// Into how many parts few tiles of a long k are cut, so that the device has something to do.
std::int64_t split_of_digits(const Geometry& geometry, const DigitLayout& layout, const RenderLimits& limits);

class ByteTiles {
 protected:
  /// `makes_sums`: of all blocks.
  ByteTiles(const ContractionKernel& kernel, const Geometry& geometry, const DigitLayout& layout,
            const RenderLimits& limits, bool makes_sums)
      : kernel_(kernel),
        geometry_(geometry),
        layout_(layout),
        limits_(limits),
        guarded_(makes_sums && is_guarded(kernel.type, limits)),
        index_(geometry.wide ? "LONG" : "int"),
        writer_(kernel.epilogue, geometry.epilogue, words_) {}

  /// Declares sizes and the scales of b.
  void declare_tiles();
  /// And what else multiplying reads: digits, and the scales of a.
  void declare_digits();
  /// Declares `tile_m` and `tile_n` of `tile`; `left` and `right`, the numbers of the operands' first tiles of digits;
  /// and `right_row`, the first one of the latter's rows.
  void find_tile();
  /// Before the first block: sums may become subnormal from the first small scales on.
  void begin_care();
  /// Writes what `add` writes with an fma that adds products of a thread's `row_scales` and `column_scales`, of which
  /// there are so many.
  void add_with_care(int rows, int columns, const std::function<void(const char* fma)>& add);
  /// Where output `x` of a thread goes: its row and column among the kPassedRows rows of a `piece` of the tile, which
  /// are the first half of a thread's outputs and then the other; and the row in the tile of a `staged_row` of that
  /// piece.
  struct Places {
    std::string row, column, in_tile;
  };
  /// Writes `sums` by way of `tile_digits`, so that neighbouring threads write neighbours. `word`: of that, by its
  /// number.
  void write_outputs(const Places& places, const std::function<std::string(const std::string&)>& word);
  /// Of `row` and `column` in the tile.
  void write_output(const std::string& result);
  void each_output(int count = kThreadOutputs);
  /// The text so far as a launch.
  Launch finish();

  const ContractionKernel& kernel_;
  const Geometry& geometry_;
  const DigitLayout& layout_;
  const RenderLimits& limits_;
  const bool guarded_;  ///< FMA_EXACT is slow here, and seldom needed
  const char* index_;
  Words words_;
  Lines lines_;
  ProgramWriter writer_;
};

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
