// Attention as one kernel, where the device has it; else it is computed in blocks (attention_blocks.h), with the same
// bits but in fast numerics.
#pragma once

#include <utility>
#include <vector>

#include "graph/ops/attention_call.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// Whether the device has all of it as one kernel: enough rows for one, and no masks but by the last key that a row
/// sees.
bool is_fused(const AttentionCall& call);
/// Whether a GPU should begin with it: as one kernel of a long prompt it and what belongs to a layer are few values,
/// and all layers would be one window, which the device waits for while the host records it.
bool is_much(const AttentionCall& call);
/// By that kernel; also what its gradients read again, where it has gradients.
std::pair<Tensor, Tensor> fused_attention(const AttentionCall& call);

/// Whether the device has all of a step as one kernel: one row, and a mask that hides keys.
bool is_fused_step(const AttentionCall& call);
/// While one lives, calls of this thread promise: padding, the values behind the last key that a row sees by its mask
/// of bools, is finite, as in a text's memory with room for more. So it need not be read.
class FinitePadding {
 public:
  FinitePadding();
  ~FinitePadding();
  FinitePadding(const FinitePadding&) = delete;
  FinitePadding& operator=(const FinitePadding&) = delete;
  static bool is_promised();

 private:
  bool before_;
};
/// By that kernel.
Tensor fused_attention_step(const AttentionCall& call);

/// Whether gradients are, too. Blocks of rows of several heads of the query are those of one kernel if none is shared.
bool has_fused_gradients(const AttentionCall& call, const Tensor& upstream);
/// Of query, key and value, as attention_gradients (attention_blocks.h); `made` is from fused_attention(). All three
/// are computed in any case.
std::vector<Tensor> fused_attention_gradients(const AttentionCall& call, const Tensor& upstream, const Tensor& made);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
