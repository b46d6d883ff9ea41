#include "graph/step.h"

#include <algorithm>

#include "core/assert.h"
#include "kernels/storage.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

int slot_of(Step& step, int entry) {
  const auto found = std::find(step.slots.begin(), step.slots.end(), entry);
  if (found != step.slots.end()) return static_cast<int>(found - step.slots.begin());
  step.slots.push_back(entry);
  return static_cast<int>(step.slots.size()) - 1;
}

Input input_through(Step& step, const std::vector<Entry>& entries, int read, const View& view) {
  const Entry& from = entries[static_cast<std::size_t>(read)];
  const DType held = held_dtype(from.encoding, from.dtype);
  LOCKSTEP_ASSERT(held == from.dtype || view.bounds.empty() || view.fill == 0);  // else it would be another value
  return {.slot = slot_of(step, read),
          .dtype = held,
          .view = view,
          .canonical = from.canonical && (view.bounds.empty() || is_canonical(held, view.fill)),
          .encoding = is_blocks(from.encoding) ? from.encoding : Encoding::dense};
}

Input input_of(Step& step, const std::vector<Entry>& entries, int entry, std::size_t operand) {
  const Entry::Operand& source = entries[static_cast<std::size_t>(entry)].operands[operand];
  return input_through(step, entries, source.entry, source.view);
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
