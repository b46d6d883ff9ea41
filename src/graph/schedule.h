// Turns a window of pending values into kernels. Pure: it sees a description of the window, not nodes or buffers, so
// that its result can be cached by the window's structure and tested without a device.
//
// Fusion in one paragraph: values are visited in creation order and join the kernel of their latest operand when they
// share its iteration space (elementwise), its rows (reductions over the same dims, row values) or its output (the
// epilogue of a contraction); kernels over the same space merge when nothing between them forbids it; a small
// broadcast producer moves into its only reader when hoisting makes it cheap. Everything else is stored and loaded.
#pragma once

#include <vector>

#include "graph/entry.h"
#include "graph/step.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

std::vector<Step> schedule(const std::vector<Entry>& entries);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
