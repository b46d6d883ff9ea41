// Contractions of integers of at most 16 bits on the CPU: panels of 16-bit pairs, and tiles whose step is a
// multiply-add of pairs. Sums wrap at 32 bits, so their order does not matter. Everything else, the packed way, its
// tiling and epilogues, is that of other contractions.
//
// Kept columns that fit signed bytes, as most weights do, stay in half as many bytes, pair by pair: with few rows
// reading them is what takes the time.
//
// A panel holds pairs [k / 2][lane] of 16 bits, the even k in the low half of a word; a last k without a partner has
// zeros. It has room for a multiple of 8 k, since transposing moves four words at a time.
#pragma once

#include <cstdint>

#include "backends/cpu/contraction/kernels.h"
#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

/// Whether both operands are integers of at most 16 bits, summed in 32.
bool has_pairs(const ContractionKernel& kernel);
/// The kernels for these. Where the instruction set multiplies no pairs: those of i32.
const KernelSet& pair_kernel_set(Isa isa);

/// Words of 4 bytes per lane of a panel that holds `k`.
constexpr std::int64_t pair_panel_words(std::int64_t k) {
  return (k + 7) / 8 * 4;
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
