// Contractions in blocked numerics (docs/numerics.md section 12) on the CPU: panels of integers instead of floats,
// filled from the f32 panels that packing makes of any view, and tiles that multiply them. Everything else, the packed
// way, its tiling and epilogues, is that of exact contractions.
//
// The sum S of a block's products does not fit 32 bits, and is never needed: P = floor((S + 64) / 128) is. Three forms:
//   words   plain vectors: the rows' q = 128 h + l are given as h and l, both times the columns' q by 16-bit
//           multiply-adds of pairs: P = sum h q + ((sum l q + 64) >> 7)
//   vnni    AVX-512 VNNI: S mod 2^32 by 16-bit multiply-adds, and sum h h by 8-bit ones, a quarter of the bytes of f32.
//           What they differ by, S - 2^14 sum h h, fits 32 bits, so that its value mod 2^32 is its value:
//           P = (sum h h << 7) + ((S - (sum h h << 14) + 64) >> 7)
//   bytes   products of signed bytes by NEON or AMX, of both operands' h and l:
//           P = (sum h h << 7) + (sum h l + sum l h) + ((sum l l + 64) >> 7)
// A panel holds, for each block of kSharedBlock k: pairs [k / 2][lane] of 16 bits; then, for rows in words, pairs of
// the low digits, in vnni quads [k / 4][lane] of 8 bits; f32 scales [lane]; in vnni for columns i32 [lane], which make
// up for the 128 that 8-bit digits of rows are raised by. Of bytes: digits h, then l, and scales; four neighbours along
// k of a lane together for `sdot`, eight for `smmla`, 64 of rows and four of columns for AMX's tiles. k is filled up to
// a multiple of 4, or 8, or 64, with zeros.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/contraction/kernels.h"
#include "kernels/order.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

/// The kernels of blocked contractions of (m, k) and (k, n). Where the instruction set is AVX-512 without VNNI: those
/// of AVX2. AMX's tiles have 16 rows, however few there are: with few, the kernels of VNNI.
const KernelSet& blocked_kernel_set(Isa isa, std::int64_t m, std::int64_t n);

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
