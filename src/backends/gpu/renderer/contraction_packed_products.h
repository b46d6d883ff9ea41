// What a thread does with 256 k of a column of packed weights in its registers, and a few rows
// (contraction_packed_few.cpp): their products, decoded or of codes.
#pragma once

#include "backends/gpu/renderer/contraction_packed_rows.h"
#include "backends/gpu/renderer/packed_piece.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// What it has to know of the workgroup.
struct PackedThread {
  bool exact = false;           ///< weights are decoded
  bool rows_are_shared = true;  ///< rows, as PackedRows makes them, are in the shared array `prepared`, else in scratch
  bool copies = false;          ///< RenderLimits::copies_to_shared
  int sums = 0;                 ///< of PackedRows
  int columns = 1;              ///< of the workgroup at once
  int stride = 1;               ///< of block results of a column in the shared array `partials`
};

/// Adds the block results of the thread's piece, `UINT piece[]`, with all rows of a batch to
/// `partials[(row * columns + own_column) * stride + own_piece]`. Needs `zero`, `piece_of`, which of the rows' pieces
/// it meets, `blocks` where the last one is no whole one, and `first_row` where there are batches.
void multiply_packed_piece(Lines& lines, const Geometry& geometry, const PackedPiece& piece, Encoding encoding,
                           const PackedRows& rows, const PackedThread& thread);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
