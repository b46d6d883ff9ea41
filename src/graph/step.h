// One kernel of a plan, and which entries its slots, parameters and fault words stand for.
#pragma once

#include <vector>

#include "graph/entry.h"
#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// Where a kernel's parameter comes from: a parameter of an entry's primitive (graph/primitive.h), or a constant of the
/// kernel itself (entry -1).
struct ParameterSource {
  int entry = -1;
  int position = 0;
  Scalar constant = {};
};

struct Step {
  Kernel kernel;
  std::vector<int> slots;   ///< entry behind each slot of the kernel
  std::vector<int> writes;  ///< entries whose buffers this step fills
  std::vector<ParameterSource> parameters;
  std::vector<int> checks;  ///< entry behind each fault word of the kernel
  /// Update and scatter: the entry whose buffer may become the result's, where nothing else needs it, the values
  /// neither.
  int replaces = -1;
};

/// The slot of `step` that stands for an entry, a new one if there is none yet.
int slot_of(Step& step, int entry);
/// How `step` reads an operand of an entry, which has a buffer.
Input input_of(Step& step, const std::vector<Entry>& entries, int entry, std::size_t operand);
/// A buffer of the entries read through a view over it.
Input input_through(Step& step, const std::vector<Entry>& entries, int read, const View& view);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
