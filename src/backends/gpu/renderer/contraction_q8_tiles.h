// What the parts of q8 products by integer tensor cores agree on (contraction_q8_tiles.cpp): facts of an encoding, the
// shapes of workgroups and which of them a product takes, and how rounded activations lie in scratch memory.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "backends/gpu/renderer/contraction_q8.h"
#include "backends/gpu/renderer/packed_piece.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

// A product of tensor cores: 16 rows, 8 columns, 32 of k, by a team of 32 threads.
constexpr int kFragmentRows = 16;
constexpr int kFragmentColumns = 8;
constexpr int kTeam = 32;

/// Where packed weights begin.
std::int64_t first_byte_of(const Side& b);

/// What a tile needs to know of its weights' encoding, and of where they begin.
struct TileWeights {
  TileWeights(Encoding encoding_of, std::int64_t first_byte);

  Encoding encoding;
  PackedPiece piece;
  int groups;  ///< of a block of 32 weights, with factors and shares of their own
  bool has_factors, has_offset, has_shares;
  bool is_aligned;  ///< pieces in memory, at 16 bytes
  int vectors;      ///< of 16 bytes, of a column's piece in shared memory

  /// Floats of a column's block in shared memory: scale, factors, offset, shares.
  int first_offset() const { return 1 + (has_factors ? groups : 0); }
  int factor_kinds() const { return first_offset() + (has_offset ? 1 + (has_shares ? groups : 0) : 0); }
  /// Floats of a row's block beside its codes: a scale, and sums of codes.
  int sums() const { return has_offset ? groups : 0; }
  int row_floats() const { return 1 + sums(); }
};

/// A workgroup's teams, the fragments of a team, and how many pieces of 256 k are multiplied side by side.
struct TeamForm {
  int teams_m, teams_n, teams_k, fragments_m, fragments_n;
  int groups_per_unit;  ///< workgroups that run on a unit at once, which bounds registers
  int rows() const { return teams_m * fragments_m * kFragmentRows; }
  int columns() const { return teams_n * fragments_n * kFragmentColumns; }
  int threads() const { return teams_m * teams_n * teams_k * kTeam; }
  int blocks() const { return teams_k * kQ8BlocksOfSum; }  ///< of 32 k, of a stage

  /// From one row of results in shared memory to the next: of the tile where teams part k, else of a team.
  int result_stride() const { return (teams_k > 1 ? columns() : fragments_n * kFragmentColumns) + 8; }

  /// Of a stage's rows: codes, behind them floats.
  int code_words() const { return blocks() * rows() * kWordsOfBlock; }
  int row_words(const TileWeights& weights) const { return code_words() + weights.row_floats() * blocks() * rows(); }
  int factor_words(const TileWeights& weights) const { return weights.factor_kinds() * kQ8BlocksOfSum * columns(); }
  std::vector<SharedArray> shared(const TileWeights& weights) const;
};

/// None where the device has too little shared memory.
std::optional<TeamForm> team_form(const Geometry& geometry, const TileWeights& weights, const RenderLimits& limits);

/// Codes of rounded rows have 32-bit places.
constexpr std::int64_t kFarthestCode = std::int64_t{1} << 31;

/// Whether tiles can be multiplied: of one batch, of packed weights that are made of whole 256 k.
bool has_whole_pieces(const Side& b, const Geometry& geometry);

/// What kernels of tiles know of a product.
class TiledProduct {
 protected:
  TiledProduct(const ContractionKernel& kernel, const Geometry& geometry, const Side& b, const TileWeights& weights,
               const RenderLimits& limits);

  /// Launches for all rows, of whole tiles of so many: in parts, where rounded ones of `row_bytes` each would be too
  /// many for scratch memory. `append` adds the launches of rows [first, first + count).
  Rendered render_parts(int tile_rows, std::int64_t row_bytes,
                        const std::function<void(Rendered&, std::int64_t first, std::int64_t count)>& append) const;

  const ContractionKernel& kernel_;
  const Geometry& geometry_;
  const RenderLimits& limits_;
  const TileWeights& weights_;
  const PackedPiece& piece_;
  const std::int64_t pieces_;  ///< of 256 k
  const std::int64_t blocks_;  ///< of 32 k
  const std::int64_t first_byte_, column_bytes_;
  const char* index_;
  const Side a_;
  const Side& b_;
};

/// `count` rows, filled up to whole tiles, in scratch memory: codes [block][16 rows][thread][4 words], behind them, in
/// words, floats [which][block][16 rows][8][2]. In order: codes [block][row][8 words], floats [which][block][row].
struct RowLayout {
  std::int64_t count, blocks, fragments;  ///< fragments: of 16 rows
  bool in_order = false;
  std::int64_t code_words() const { return blocks * fragments * kFragmentRows * kWordsOfBlock; }
};
/// Rounds rows [first, first + count) of the activations.
Launch round_rows(const Geometry& geometry, const Side& a, std::int64_t first, const RowLayout& layout, int sums,
                  const RenderLimits& limits);

/// Adds the products of a team's rows and columns in a piece to `float partial[]`, from where they lie: arrays of
/// TeamForm::shared, the rows from `of_side` on, and the team's `team_m`, `team_n`, `team_k` and `lane`.
void multiply_piece(Lines& lines, const TeamForm& form, const TileWeights& weights);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
