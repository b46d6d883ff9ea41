// Compiles blocked-inl.h once per instruction set.
#define HWY_TARGET_INCLUDE "backends/cpu/contraction/blocked_kernels.cpp"
#include "backends/cpu/simd_table.h"

#include <algorithm>

#include "backends/cpu/contraction/blocked-inl.h"
#include "backends/cpu/contraction/blocked.h"
#if HWY_TARGET == HWY_AVX3
#include "backends/cpu/contraction/blocked_amx-inl.h"
#include "backends/cpu/contraction/blocked_vnni-inl.h"
#elif HWY_TARGET == HWY_NEON
#include "backends/cpu/contraction/blocked_neon-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3
using Tiles = VnniTiles;
#else
using Tiles = WordTiles;
#endif

const KernelSet& local_blocked_kernels() {
  static const KernelSet kSet = blocked_kernels_of<Tiles>();
  return kSet;
}

#if HWY_TARGET == HWY_AVX3
const KernelSet& amx_kernels() {
  static const KernelSet kSet = blocked_kernels_of<AmxTiles>();
  return kSet;
}
#elif HWY_TARGET == HWY_NEON
const KernelSet& byte_kernels(Isa isa) {
  static const KernelSet kDots = blocked_kernels_of<DotTiles>();
  static const KernelSet kMatrices = blocked_kernels_of<MatrixTiles>();
  return isa == Isa::neon_dot ? kDots : kMatrices;
}
#endif

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

LOCKSTEP_TABLE_OF_ISA(KernelSet, blocked_set_of, local_blocked_kernels)

#if HWY_TARGETS & HWY_AVX3
constexpr std::int64_t kLeastAmxRows = 7;  // from which on tiles are faster (measured at 2048 x 2048)
#endif

}  // namespace

const KernelSet& blocked_kernel_set(Isa isa, [[maybe_unused]] std::int64_t m, [[maybe_unused]] std::int64_t n) {
#if defined(__aarch64__)
  if (isa == Isa::neon_dot || isa == Isa::neon_i8mm) return HWY_STATIC_DISPATCH(byte_kernels)(isa);
#elif HWY_TARGETS & HWY_AVX3
  if (isa == Isa::amx && std::min(m, n) >= kLeastAmxRows) return N_AVX3::amx_kernels();
#endif
  return blocked_set_of(isa == Isa::avx512 && !has_vnni() ? Isa::avx2 : isa);
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
#endif  // HWY_ONCE
