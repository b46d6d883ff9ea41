#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

// A probe's shape is [queries, width, keys]. The last two variants have widths that devices take as one kernel.
Tensors attention(Probe& p) {
  constexpr int kFused = 5;
  AttentionOptions options;
  const bool fused = p.variant() >= kFused;
  const std::int64_t heads = 4;
  const std::int64_t key_heads = p.variant() == 4 || p.variant() == kFused ? 2 : heads;
  const std::int64_t width = fused ? 32 : p.size(1);
  if (p.variant() == 1) options.causal = true;
  if (p.variant() == 2) options = {.causal = true, .alignment = CausalAlignment::bottom_right, .window_left = 3};
  if (p.variant() == 3) options.softcap = 5;
  if (p.variant() == 4 || p.variant() == kFused) options.enable_gqa = true;
  if (p.variant() == kFused + 1) options.causal = true;
  const Tensor query = p.x({heads, p.size(0), width});
  const Tensor key = p.x({key_heads, p.size(2), width});
  const Tensor value = p.x({key_heads, p.size(2), fused ? width : 5});
  if (p.variant() == 3) options.mask = p.mask({p.size(0), p.size(2)});
  if (p.variant() == 4) options.mask = p.x({p.size(0), p.size(2)});
  return {scaled_dot_product_attention(query, key, value, options)};
}

const CheckOp kAttentionOps[] = {
    {"scaled_dot_product_attention", Form::matrix, 7, attention},
    {"rope", Form::sequence, 3,
     [](Probe& p) -> Tensors {
       if (p.variant() == 2) return {rope(p.x(), {.dims = 2, .offset = 5})};
       return {rope(p.x(), {.interleaved = p.variant() == 1})};
     }},
    {"rope_tables", Form::sequence, 1,
     [](Probe& p) -> Tensors {
       const RopeTables tables = rope_tables(p.size(0), p.size(2), {}, p.options());
       return {tables.cos, tables.sin};
     }},
    {"alibi_slopes", Form::sequence, 1, [](Probe& p) -> Tensors { return {alibi_slopes(p.size(2), p.options())}; }},
};

}  // namespace

std::span<const CheckOp> check_attention_ops() {
  return kAttentionOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
