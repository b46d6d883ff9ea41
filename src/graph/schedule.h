// Turns a window of pending values into kernels. Pure: it sees a description of the window, not nodes or buffers, so
// that its result can be cached by the window's structure and tested without a device.
//
// Fusion in one paragraph: values are visited in creation order and join the kernel of their latest operand when they
// share its iteration space (elementwise), its rows (reductions over the same dims, row values) or its output (the
// epilogue of a contraction); kernels over the same space merge when nothing between them forbids it; a small
// broadcast producer moves into its only reader when hoisting makes it cheap. Everything else is stored and loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "graph/node.h"
#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// One value of a window. Operands are earlier entries.
struct Entry {
  struct Operand {
    int entry = -1;  ///< never a ViewOf; -1: a scalar
    View view;       ///< over the shape of the entry that reads it (Contract, irregular ones: over their operand's own)
  };
  const Primitive* op = nullptr;
  std::vector<Operand> operands;
  Shape shape;
  DType dtype = DType::f32;
  bool given = false;      ///< its buffer exists already
  bool wanted = false;     ///< its value must be stored
  bool canonical = false;  ///< f32/bf16: free of subnormals
};

/// Where a kernel's parameter comes from: a scalar of an entry (Elementwise: its position; Full: 0; Random: 0 seed,
/// 1 draw), or a constant of the kernel itself (entry -1).
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
  /// Update: the entry whose buffer may become the result's, where nothing else needs it, the values neither.
  int replaces = -1;
};

std::vector<Step> schedule(const std::vector<Entry>& entries);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
