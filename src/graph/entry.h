// A node as the scheduler sees it: no pointer to nodes or buffers, nothing that differs between runs of one plan.
#pragma once

#include <vector>

#include "core/view.h"
#include "graph/primitive.h"

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
  Encoding encoding = Encoding::dense;
  bool given = false;      ///< its buffer exists already
  bool wanted = false;     ///< its value must be stored
  bool canonical = false;  ///< f32/bf16: free of subnormals
};

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
