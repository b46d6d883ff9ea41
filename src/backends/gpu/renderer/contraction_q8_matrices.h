// What the parts of q8 products by cooperative matrices agree on (contraction_q8_matrices.cpp): the shape of workgroups
// and where things lie in their shared memory.
#pragma once

#include "backends/gpu/renderer/contraction_q8_tiles.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

inline constexpr int kSumsSide = 16;                                 ///< of a matrix of sums
inline constexpr int kSumsOfMatrix = kSumsSide * kSumsSide / kTeam;  ///< of a thread
inline constexpr int kStepOfRows = 3;  ///< words by fours from row to row: eight are in different banks
inline constexpr const char* kSharedFours = "tile_digits";

/// A workgroup's teams, the matrices of a team, which lie below one another, and the blocks of rows that are in shared
/// memory at once.
struct MatrixForm {
  int teams_m, teams_n, matrices, step;
  int rows() const { return teams_m * matrices * kSumsSide; }
  int columns() const { return teams_n * kSumsSide; }
  int threads() const { return teams_m * teams_n * kTeam; }
};

/// Words of a row's or a column's floats in shared memory.
constexpr int in_fours(int floats) {
  return floats == 1 ? 1 : (floats + 3) / 4 * 4;
}

/// Where things lie in shared memory, in words by fours.
struct MatrixPlaces {
  MatrixPlaces(const MatrixForm& form, const TileWeights& weights)
      : rows(0),
        columns(form.step * form.rows() * kStepOfRows),
        of_rows(columns + kQ8BlocksOfSum * form.columns() * kStepOfRows),
        of_columns(of_rows + form.step * form.rows() * in_fours(weights.row_floats()) / 4),
        span(of_columns + kQ8BlocksOfSum * form.columns() * in_fours(weights.factor_kinds()) / 4),
        end(span + form.columns() * weights.vectors + 1) {}
  int rows, columns, of_rows, of_columns, span, end;
};

/// Adds the products of block `block` of the rows and columns in shared memory, the piece's `of_piece`, to
/// `float partial[]`: for the team's `team_m` and `team_n`, whose threads have the sums of `int places[]`. `bool
/// plain`: none of them needs care.
void multiply_matrices(Lines& lines, const MatrixForm& form, const TileWeights& weights);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
