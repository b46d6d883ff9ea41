// Contractions of unsigned by signed bytes with AVX-512 VNNI, whose step multiplies four bytes of each lane: what
// quantised models multiply. Elsewhere they are pairs of 16 bits (pairs.h), with the same sums, which wrap at 32 bits.
//
// A panel holds words [k / 4][lane] of four bytes, the least k in the lowest; behind the last k are zeros. It has room
// for a multiple of 16 k, since transposing moves four words at a time.
#pragma once

#include <cstdint>

#include "backends/cpu/contraction/kernels.h"
#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

struct ByteKernelSets {
  KernelSet unsigned_rows, signed_rows;
  bool exist = false;
};

/// Whether one operand is of unsigned bytes, and the other of signed ones.
bool has_bytes(const ContractionKernel& kernel);
/// The kernels for these, of the sizes of tiles that those of pairs have. On processors without the instruction there
/// are none.
const ByteKernelSets& byte_kernel_sets(Isa isa);

/// Words of 4 bytes per lane of a panel that holds `k`.
constexpr std::int64_t byte_panel_words(std::int64_t k) {
  return (k + 15) / 16 * 4;
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
