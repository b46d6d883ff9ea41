// The loops of q8_kernels.cpp once more for NEON, with its dot products.
#include "backends/cpu/simd_targets.h"

#if defined(__aarch64__)

#define LOCKSTEP_Q8_SDOT 1
#define HWY_TARGET_INCLUDE "backends/cpu/contraction/q8_sdot_kernels.cpp"
#include "backends/cpu/simd_table.h"

#include "backends/cpu/contraction/neon_bytes.h"
#include "backends/cpu/contraction/q8.h"
#include "backends/cpu/contraction/q8_tile-inl.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

const Q8Loops& q8_sdot_loops(Encoding encoding) {
  static const auto kTable = HWY_NAMESPACE::make_q8_table();
  return kTable[static_cast<std::size_t>(encoding) - 1];
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep

#endif
