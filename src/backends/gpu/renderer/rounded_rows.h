// Activations as Hopper's q8 products read them (contraction_q8_warpgroups.cpp): a piece, 256 of k, of a tile's rows
// lies together, codes as wgmma reads them, then floats. Made in scratch memory by a launch of the product, or by the
// kernel that computes the activations (chain.cpp).
#pragma once

#include <string>

#include "backends/gpu/renderer/writer.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

std::int64_t row_bytes_of_piece(const RoundedRows& rows);
/// Of all tiles.
std::int64_t rounded_bytes(const RoundedRows& rows);
std::int64_t row_tiles_of(const RoundedRows& rows);

/// FUNCTION void round_neighbours(MEMORY rows, int row_tiles, int row, int block, const float* x): rounds `neighbours`,
/// 4 or 8, of block `block` of a row and lays them down. Threads have those that follow each other, from the first of a
/// block on, 32 threads of one row, all of which call it. For KernelText::copies.
std::string rounding_text(const RoundedRows& rows, int neighbours);
/// Declares what it takes, `rounded` and `row_tiles`, and clears the words behind the rows. `scratch`: Patch::index.
void start_rounding(Lines& lines, Words& words, const RoundedRows& rows, int scratch, int threads);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
