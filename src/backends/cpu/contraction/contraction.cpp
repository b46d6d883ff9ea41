#include "backends/cpu/contraction/contraction.h"

#include <utility>

#include <lockstep/error.h>

#include "backends/cpu/contraction/blocked.h"
#include "backends/cpu/contraction/bytes.h"
#include "backends/cpu/contraction/pairs.h"
#include "backends/cpu/contraction/planner.h"
#include "backends/cpu/contraction/way.h"

namespace lockstep {
inline namespace v0 {

std::unique_ptr<Executable> compile_contraction(const ContractionKernel& kernel) {
  return compile_contraction(kernel, selected_isa());
}

bool runs_together(const KernelList& products, Isa isa) {
  return contraction::q8_runs_together(products, isa);
}

std::unique_ptr<Executable> compile_together(const KernelList& products, Isa isa) {
  return contraction::make_q8_siblings(products, isa);
}

std::unique_ptr<Executable> compile_contraction(const ContractionKernel& kernel, Isa isa,
                                                std::shared_ptr<KeptPanels> kept) {
  using namespace contraction;
  if (kernel.numerics == Numerics::fast) throw BackendError("cpu: only CUDA devices have fast numerics");
  const bool blocked = kernel.numerics == Numerics::blocked;
  const KernelSet& kernels = blocked             ? blocked_kernel_set(isa, kernel.m.numel(), kernel.n.numel())
                             : has_pairs(kernel) ? pair_kernel_set(isa)
                                                 : kernel_set(kernel.type, isa);
  contraction::Plan made = make_plan(kernel, kernels);
  const ByteKernelSets& bytes = byte_kernel_sets(isa);
  const bool has_byte_kernels = bytes.exist && has_bytes(kernel);
  const KernelSet& of_bytes = made.row_side.dtype == DType::u8 ? bytes.unsigned_rows : bytes.signed_rows;
  Task task{.kernels = has_byte_kernels ? of_bytes : kernels,
            .plan = std::move(made),
            .epilogue = kernel.epilogue,
            .isa = isa,
            .kept = std::move(kept)};
  const Plan& plan = task.plan;
  if (kernel.numerics == Numerics::q8) return make_q8_way(std::move(task));
  if (kernels.thin != nullptr) {
    if (auto table = make_thin_table(plan, kernels.lanes, kernels.tile_rows)) {
      return make_thin_way(std::move(task), std::move(*table));
    }
  }
  if (kernels.lines != nullptr) {
    if (auto table = make_line_table(plan, kernels.lanes, kernels.tile_columns)) {
      return make_lines_way(std::move(task), std::move(*table));
    }
  }
  if (kernels.direct != nullptr) {
    if (auto table = make_direct_table(plan, kernels.lanes)) {
      return make_direct_way(std::move(task), std::move(*table));
    }
  }
  const InPlaceFunction loop = blocked ? nullptr : in_place_function(isa);
  if (loop != nullptr && plan.type == ComputeType::f32) {
    if (auto table = make_in_place_table(plan.row_side, plan.column_side, plan.rows, plan.columns, plan.k)) {
      return make_in_place_way(std::move(task), std::move(*table), loop);
    }
  }
  return make_packed_way(std::move(task));
}

}  // namespace v0
}  // namespace lockstep
