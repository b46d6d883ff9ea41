// How the elements of a loss become its result.
#pragma once

#include <lockstep/ops/loss.h>

#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// All losses, or their sum or mean as a scalar; in the dtype of `losses`.
Tensor reduced(const Tensor& losses, Reduction reduction);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
