// The inner loops of a contraction for one compute type and instruction set, as the ways call them.
#pragma once

#include <cstddef>

#include "backends/cpu/contraction/direct.h"
#include "backends/cpu/contraction/panels.h"
#include "backends/cpu/contraction/thin.h"
#include "backends/cpu/contraction/window.h"
#include "backends/cpu/isa.h"
#include "kernels/order.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

struct KernelSet {
  int lanes = 1;
  int tile_rows = 1;
  int tile_columns = 1;
  std::size_t element_size = 4;
  void (*pack_rows)(const PackArgs&) = nullptr;
  void (*pack_columns)(const PackArgs&) = nullptr;
  void (*pack_lanes)(const PackArgs&) = nullptr;  ///< columns, in panels of one vector; f32 only
  void (*multiply)(const MultiplyArgs&) = nullptr;
  ThinFunction thin = nullptr;         ///< f32 on vector instruction sets, otherwise null
  WindowFunction window = nullptr;     ///< f32 where loads have masks, otherwise null
  DirectFunction direct = nullptr;     ///< f32 on vector instruction sets, otherwise null
};

struct KernelSets {
  KernelSet f32, f64, i32, i64;
};
const KernelSets& kernel_sets(Isa isa);
const KernelSet& kernel_set(ComputeType type, Isa isa);

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
