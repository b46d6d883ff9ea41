// Weights packed in blocks (Tensor::from_blocks). matmul, linear and the other products read them as their right
// operand, embedding and the gathers of indexing.h as their table, with the bits of the dense weights; nothing else does.
#pragma once

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

/// The values of a packed tensor, dense, in its dtype (exact); a dense tensor as it is. Of views, what they show.
LOCKSTEP_API Tensor dequantize(const Operand& packed);

}  // namespace v0
}  // namespace lockstep
