// Compiles pairs-inl.h once per instruction set, and bytes_vnni-inl.h.
#define HWY_TARGET_INCLUDE "backends/cpu/contraction/pairs_kernels.cpp"
#include "backends/cpu/simd_table.h"

#include "backends/cpu/contraction/bytes.h"
#include "backends/cpu/contraction/pairs-inl.h"
#include "backends/cpu/contraction/pairs.h"
#if HWY_TARGET == HWY_AVX3
#include "backends/cpu/contraction/bytes_vnni-inl.h"
#include "backends/cpu/contraction/pairs_vnni-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

const KernelSet& local_pair_kernels() {
#if LOCKSTEP_SCALAR_TILE
  return kernel_sets(Isa::scalar).i32;
#else
  static const KernelSet kSet = pair_kernels_of<PairTiles>();
#if HWY_TARGET == HWY_AVX3
  static const KernelSet kVnni = pair_kernels_of<VnniPairTiles>();
  if (has_vnni()) return kVnni;
#endif
  return kSet;
#endif
}

const ByteKernelSets& local_byte_kernels() {
#if HWY_TARGET == HWY_AVX3
  static const ByteKernelSets kVnni = {byte_kernels_of<false>(), byte_kernels_of<true>(), true};
  if (has_vnni()) return kVnni;
#endif
  static const ByteKernelSets kNone;
  return kNone;
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

LOCKSTEP_TABLE_OF_ISA(KernelSet, pair_kernel_set, local_pair_kernels)
LOCKSTEP_TABLE_OF_ISA(ByteKernelSets, byte_kernel_sets, local_byte_kernels)

bool has_pairs(const ContractionKernel& kernel) {
  const auto fits = [](DType dtype) { return !is_float(dtype) && size_of(dtype) <= 2; };
  return kernel.type == ComputeType::i32 && fits(kernel.a.dtype) && fits(kernel.b_operand.dtype);
}

bool has_bytes(const ContractionKernel& kernel) {
  const DType a = kernel.a.dtype;
  const DType b = kernel.b_operand.dtype;
  return (a == DType::u8 && b == DType::i8) || (a == DType::i8 && b == DType::u8);
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
#endif  // HWY_ONCE
