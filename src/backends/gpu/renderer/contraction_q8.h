// What the forms of contractions in q8 numerics share (contraction_q8.cpp).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "backends/gpu/renderer/contraction.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

constexpr int kWordsOfBlock = order::kQ8Block / 4;        ///< of codes
constexpr int kQ8BlocksOfSum = kBlock / order::kQ8Block;  ///< blocks of 32 in one of 256

/// Rounds block `block` of row `row`, of all batches, of the activations: declares `UINT code[8]`, four codes each,
/// `FLOAT scale`, and the sums of codes `int half_sum[2]` of either half. Needs `a_at`.
void round_block(Lines& lines, Words& words, const Geometry& geometry, const Side& a, const std::string& row,
                 const std::string& block);

/// A few rows, by which workgroups multiply columns as they stream in; none where columns are not neighbours in memory.
std::optional<Rendered> render_q8_few(const ContractionKernel& kernel, const Geometry& geometry,
                                      const RenderLimits& limits);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
