#include "graph/step.h"

#include <algorithm>

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
  return {.slot = slot_of(step, read),
          .dtype = from.dtype,
          .view = view,
          .canonical = from.canonical && (view.bounds.empty() || is_canonical(from.dtype, view.fill)),
          .encoding = from.encoding};
}

Input input_of(Step& step, const std::vector<Entry>& entries, int entry, std::size_t operand) {
  const Entry::Operand& source = entries[static_cast<std::size_t>(entry)].operands[operand];
  return input_through(step, entries, source.entry, source.view);
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
