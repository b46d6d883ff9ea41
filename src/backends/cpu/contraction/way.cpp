#include "backends/cpu/contraction/way.h"

#include <algorithm>

#include "backends/cpu/threads.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

void Way::pack(const Binding& binding, Operand operand, const Position& batch, std::int64_t outer_begin,
               std::int64_t outer_count, std::int64_t k_block, void* panels, Workspace& workspace) const {
  PackArgs args;
  args.side = &side(operand);
  args.data = data(binding, operand);
  args.batch = batch;
  args.outer_begin = outer_begin;
  args.outer_count = outer_count;
  args.k_begin = k_block * kBlock;
  args.k_count = k_count(k_block);
  args.panels = panels;
  args.panel_stride = panel_stride(operand);
  args.workspace = &workspace.pack;
  (operand == Operand::rows ? kernels_.pack_rows : kernels_.pack_columns)(args);
}

const std::byte* Way::pack_all(const Binding& binding, Operand operand, bool serial, GrowingBuffer& buffer) const {
  const std::int64_t stride = block_stride(operand) * element_size();
  std::byte* const to = buffer.reserve(plan_.batches * k_blocks() * stride);
  constexpr std::int64_t kPanels = 4;  // one task
  const std::int64_t group = kPanels * width(operand);
  const std::int64_t groups = divide_up(outer(operand), group);
  const std::int64_t tasks = plan_.batches * k_blocks() * groups;
  parallel_for(tasks, serial ? tasks : 1, [&](std::int64_t begin, std::int64_t end) {
    Workspace& workspace = Workspace::of_this_thread();
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t block = task / groups;
      const std::int64_t at = task % groups * group;
      std::byte* panels = to + block * stride + task % groups * kPanels * panel_stride(operand) * element_size();
      pack(binding, operand, side(operand).geometry.batch_position(block / k_blocks()), at,
           std::min(group, outer(operand) - at), block % k_blocks(), panels, workspace);
    }
  });
  return to;
}

const void* Way::panels(const Binding& binding, Operand operand, const std::byte* packed, const Position& position,
                        std::int64_t batch, std::int64_t begin, std::int64_t count, std::int64_t k_block,
                        Workspace& workspace) const {
  if (packed != nullptr) {
    const std::int64_t panel = begin / width(operand);
    return packed +
           ((batch * k_blocks() + k_block) * block_stride(operand) + panel * panel_stride(operand)) * element_size();
  }
  GrowingBuffer& buffer = operand == Operand::rows ? workspace.rows : workspace.columns;
  std::byte* to = buffer.reserve(divide_up(count, width(operand)) * panel_stride(operand) * element_size());
  pack(binding, operand, position, begin, count, k_block, to, workspace);
  return to;
}

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
