#include "cli/recorded_ops/families.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

Tensors call_attention(Arguments& a) {
  AttentionOptions options;
  options.mask = a.named("attn_mask");
  options.causal = a.flag("is_causal");
  if (a.text("causal_alignment", "top-left") == "bottom-right") options.alignment = CausalAlignment::bottom_right;
  options.enable_gqa = a.flag("enable_gqa");
  options.scale = a.optional_real("scale");
  options.softcap = a.real("softcap", 0);
  if (a.has("window_left")) options.window_left = a.integer("window_left");
  if (a.has("window_right")) options.window_right = a.integer("window_right");
  return {scaled_dot_product_attention(a[0], a[1], a[2], options)};
}

Tensors call_rope(Arguments& a) {
  return {rope(a[0], {.base = a.real("theta", 10000),
                      .interleaved = a.flag("interleaved"),
                      .dims = a.integer("dims", 0),
                      .offset = a.integer("offset", 0),
                      .position_scale = a.real("position_scale", 1)})};
}

constexpr RecordedOp kAttentionOps[] = {
    {"rope", kComputes, call_rope},
    {"scaled_dot_product_attention", kComputes, call_attention},
};

}  // namespace

std::span<const RecordedOp> attention_ops() {
  return kAttentionOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
