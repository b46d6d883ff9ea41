// What forms of contractions with packed weights share (contraction_q8.cpp, contraction_q8_tiles.cpp,
// contraction_packed_few.cpp).
#pragma once

#include <optional>
#include <string>

#include "backends/gpu/renderer/contraction.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

constexpr int kWordsOfBlock = order::kQ8Block / 4;        ///< of codes
constexpr int kQ8BlocksOfSum = kBlock / order::kQ8Block;  ///< blocks of 32 in one of 256

/// Declares `count` elements along k, from the multiple of 4 `first` on, of row `row`, of all batches, of the
/// activations: `float x[count]`. Needs `a_at`.
void load_neighbours(Lines& lines, Words& words, const Geometry& geometry, const Side& a, const std::string& row,
                     const std::string& first, int count);
/// The same of block `block`, 32 elements.
void load_block(Lines& lines, Words& words, const Geometry& geometry, const Side& a, const std::string& row,
                const std::string& block);
/// The same, and what it is rounded to: `UINT code[8]`, four codes each, `FLOAT scale`, and the sums of codes
/// `int half_sum[2]` of either half.
void round_block(Lines& lines, Words& words, const Geometry& geometry, const Side& a, const std::string& row,
                 const std::string& block);

/// Opens a loop in which threads take a block of a row each, neighbours those of neighbouring rows from `first` on, and
/// round it: `block`, `row`, and what round_block declares, zeros from row `count` on. Needs `rows`, `blocks`, `count`.
void open_rounding(Lines& lines, Words& words, const Geometry& geometry, const Side& a, std::int64_t rows,
                   std::int64_t first, int threads);

/// Whether columns of packed weights are neighbours, each as long as k and made of whole blocks, and so are batches,
/// wherever they are.
bool has_whole_blocks(const Side& b, const Geometry& geometry);

/// Many rows by Hopper's integer tensor cores (contraction_q8_warpgroups.cpp); none on other devices, or where k is not
/// made of whole 256, the encoding is none that threads can take apart where it lies, or two matrices are faster apart.
std::optional<Rendered> render_q8_warpgroups(const ContractionKernel& kernel, const Geometry& geometry,
                                             const RenderLimits& limits);

/// Many rows by integer tensor cores (contraction_q8_tiles.cpp); none where the device has none, or k is not made of
/// whole 256.
std::optional<Rendered> render_q8_tiles(const ContractionKernel& kernel, const Geometry& geometry,
                                        const RenderLimits& limits);

/// The same by cooperative matrices of bytes (contraction_q8_matrices.cpp).
std::optional<Rendered> render_q8_matrices(const ContractionKernel& kernel, const Geometry& geometry,
                                           const RenderLimits& limits);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
