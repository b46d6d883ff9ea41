// What the files of shape ops share.
#pragma once

#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// The operand as a defined tensor; ValueError for scalars.
const Tensor& tensor_operand(const char* op, const Operand& a);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
