// Compiles tile-inl.h, packing-inl.h, copy_lines-inl.h, thin-inl.h, lines-inl.h and direct-inl.h once per instruction
// set.
#define HWY_TARGET_INCLUDE "backends/cpu/contraction/kernels.cpp"
#include "backends/cpu/simd_table.h"

#include "backends/cpu/contraction/copy_lines-inl.h"
#include "backends/cpu/contraction/direct-inl.h"
#include "backends/cpu/contraction/kernels.h"
#include "backends/cpu/contraction/lines-inl.h"
#include "backends/cpu/contraction/packing-inl.h"
#include "backends/cpu/contraction/thin-inl.h"
#include "backends/cpu/contraction/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep {
inline namespace v0 {
namespace contraction {
namespace HWY_NAMESPACE {

template <typename T> constexpr void (*pack_lanes_of())(const PackArgs&) {
  if constexpr (std::is_same_v<T, float>) {
    return &pack<T, kLanes<T>>;
  } else {
    return nullptr;
  }
}

template <typename T> constexpr KernelSet kernels_of() {
  static_assert(kTileColumns<T> <= kMaxWidth && kTileRows <= kMaxWidth);
  return {.lanes = kLanes<T>,
          .tile_rows = kTileRows,
          .tile_columns = kTileColumns<T>,
          .element_size = sizeof(T),
          .pack_rows = &pack<T, kTileRows>,
          .pack_columns = &pack<T, kTileColumns<T>>,
          .pack_lanes = pack_lanes_of<T>(),
          .multiply = &multiply<T>,
          .copy = std::is_same_v<T, float> ? copy_function() : nullptr,
          .thin = std::is_same_v<T, float> ? thin_function() : nullptr,
          .lines = std::is_same_v<T, float> ? line_function() : nullptr,
          .direct = std::is_same_v<T, float> ? direct_function() : nullptr};
}

const KernelSets& local_kernel_sets() {
  static const KernelSets kSets = {.f32 = kernels_of<float>(),
                                   .f64 = kernels_of<double>(),
                                   .i32 = kernels_of<std::int32_t>(),
                                   .i64 = kernels_of<std::int64_t>()};
  return kSets;
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

LOCKSTEP_TABLE_OF_ISA(KernelSets, kernel_sets, local_kernel_sets)

bool has_vnni() {
#if defined(__x86_64__) || defined(__i386__)
  static const bool vnni = __builtin_cpu_supports("avx512vnni") != 0;
  return vnni;
#else
  return false;
#endif
}

const KernelSet& kernel_set(ComputeType type, Isa isa) {
  const KernelSets& sets = kernel_sets(isa);
  switch (type) {
    case ComputeType::f32: return sets.f32;
    case ComputeType::f64: return sets.f64;
    case ComputeType::i32: return sets.i32;
    case ComputeType::i64: break;
  }
  return sets.i64;
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
#endif  // HWY_ONCE
