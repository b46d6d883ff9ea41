// Compiles q8_tile-inl.h once per instruction set.
#define HWY_TARGET_INCLUDE "backends/cpu/contraction/q8_kernels.cpp"
#include "backends/cpu/simd_table.h"

#include <array>

#include "backends/cpu/contraction/kernels.h"
#include "backends/cpu/contraction/q8_tile-inl.h"
#include "backends/cpu/contraction/q8.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

const Q8Table& local_q8_table() {
  static const Q8Table kTable = make_q8_table();
  return kTable;
}

}  // namespace HWY_NAMESPACE
}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace {

#define ENCODING(name, ...) +1
using Q8Table = std::array<Q8Loops, 0
#include <lockstep/encodings.def>
                           >;
#undef ENCODING

LOCKSTEP_TABLE_OF_ISA(Q8Table, q8_table, local_q8_table)

}  // namespace

const Q8Loops& block_panels(Encoding encoding, Isa isa) {
  return q8_table(isa)[static_cast<std::size_t>(encoding) - 1];  // rows are in the order of encodings.def
}

// AVX-512's products need VNNI. NEON's dot products have loops of their own.
const Q8Loops& q8_loops(Encoding encoding, Isa isa) {
#if defined(__aarch64__)
  if (isa == Isa::neon_dot || isa == Isa::neon_i8mm) return q8_sdot_loops(encoding);
#endif
#if (defined(__x86_64__) || defined(__i386__)) && !defined(LOCKSTEP_SANITIZED)
  if (isa == Isa::amx) return q8_amx_loops(encoding);
#endif
  return block_panels(encoding, isa == Isa::avx512 && !has_vnni() ? Isa::avx2 : isa);
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
#endif  // HWY_ONCE
