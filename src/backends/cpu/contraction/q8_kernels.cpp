// Compiles q8_tile-inl.h once per instruction set.
#define HWY_TARGET_INCLUDE "backends/cpu/contraction/q8_kernels.cpp"
#include "backends/cpu/simd_table.h"

#include <array>
#include <utility>

#include "backends/cpu/contraction/kernels.h"
#include "backends/cpu/contraction/q8_tile-inl.h"
#include "backends/cpu/contraction/q8.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

using Q8Table = std::array<Q8Loops, std::size(kQ8Forms)>;

template <std::size_t... kForms> Q8Table make_q8_table(std::index_sequence<kForms...>) {
  return {q8_loops_of<static_cast<int>(kForms)>()...};
}

const Q8Table& local_q8_table() {
  static const Q8Table kTable = make_q8_table(std::make_index_sequence<std::size(kQ8Forms)>());
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

// AVX-512's products need VNNI.
const Q8Loops& q8_loops(Encoding encoding, Isa isa) {
  return block_panels(encoding, isa == Isa::avx512 && !has_vnni() ? Isa::avx2 : isa);
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
#endif  // HWY_ONCE
