// What forms of contractions with packed weights share (contraction_q8.cpp, contraction_packed_few.cpp).
#pragma once

#include <string>

#include "backends/gpu/renderer/contraction.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

constexpr int kWordsOfBlock = order::kQ8Block / 4;        ///< of codes
constexpr int kQ8BlocksOfSum = kBlock / order::kQ8Block;  ///< blocks of 32 in one of 256

/// Declares block `block`, 32 elements along k, of row `row`, of all batches, of the activations: `float x[32]`. Needs
/// `a_at`.
void load_block(Lines& lines, Words& words, const Geometry& geometry, const Side& a, const std::string& row,
                const std::string& block);
/// The same, and what it is rounded to: `UINT code[8]`, four codes each, `FLOAT scale`, and the sums of codes
/// `int half_sum[2]` of either half.
void round_block(Lines& lines, Words& words, const Geometry& geometry, const Side& a, const std::string& row,
                 const std::string& block);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
