// scaled_dot_product_attention in blocks of rows: the composition of docs/numerics.md section 6, whose scores exist for
// one block at a time. Masks of causality and windows are comparisons of positions inside the kernels.
#pragma once

#include <utility>
#include <vector>

#include "graph/ops/attention_call.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

Tensor attention_in_blocks(const AttentionCall& call);

/// Whether the weights are so few that gradients had better have them than compute them again: no more numbers than
/// twice the operands and the result have, on the host.
bool keeps_weights(const AttentionCall& call);
/// The result, and the weights where one block has them all, else nothing.
std::pair<Tensor, Tensor> attention_and_weights(const AttentionCall& call);

/// Of query, key, value and mask, from that of the result; each of its operand's shape or one that broadcasts from it.
/// Without `weights` these are computed again, for as many leading indices at a time as make a block.
std::vector<Tensor> attention_gradients(const AttentionCall& call, const Tensor& upstream, const Tensor& result,
                                        const std::vector<bool>& wanted, const Tensor& weights);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
