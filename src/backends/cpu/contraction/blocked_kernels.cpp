// Compiles blocked-inl.h once per instruction set.
#define HWY_TARGET_INCLUDE "backends/cpu/contraction/blocked_kernels.cpp"
#include "backends/cpu/simd_table.h"

#include "backends/cpu/contraction/blocked-inl.h"
#include "backends/cpu/contraction/blocked.h"
#if HWY_TARGET == HWY_AVX3
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

#if HWY_TARGET == HWY_NEON
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

}  // namespace

const KernelSet& blocked_kernel_set(Isa isa) {
#if defined(__aarch64__)
  if (isa == Isa::neon_dot || isa == Isa::neon_i8mm) return HWY_STATIC_DISPATCH(byte_kernels)(isa);
#endif
  return blocked_set_of(isa == Isa::avx512 && !has_vnni() ? Isa::avx2 : isa);
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
#endif  // HWY_ONCE
