#include "cli/case_ops/families.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

Tensors call_layer_norm(Arguments& a) {
  return {layer_norm(a[0], a.sizes("normalized_shape", {}), a.named("weight"), a.named("bias"), a.real("eps", 1e-5))};
}

Tensors call_rms_norm(Arguments& a) {
  const std::optional<Tensor> weight = a.named("weight");
  const Shape shape = a.sizes("normalized_shape", weight ? weight->shape() : Shape{});
  return {rms_norm(a[0], shape, weight, a.optional_real("eps"))};
}

Tensors call_group_norm(Arguments& a) {
  return {group_norm(a[0], a.integer("num_groups"), a.named("weight"), a.named("bias"), a.real("eps", 1e-5))};
}

// Every channel is a group of its own.
Tensors call_instance_norm(Arguments& a) {
  return {group_norm(a[0], a[0].size(1), a.named("weight"), a.named("bias"), a.real("eps", 1e-5))};
}

Tensors call_batch_norm(Arguments& a) {
  if (a.flag("training")) throw Unsupported("training");
  a.real("momentum", 0.1);  // no part in evaluation
  const std::optional<Tensor> mean = a.named("running_mean");
  const std::optional<Tensor> variance = a.named("running_var");
  if (!mean || !variance) throw Unsupported("no running statistics");
  return {batch_norm(a[0], *mean, *variance, a.named("weight"), a.named("bias"), a.real("eps", 1e-5))};
}

constexpr CaseOp kOps[] = {
    {"batch_norm", kComputes, call_batch_norm},
    {"group_norm", kComputes, call_group_norm},
    {"instance_norm", kComputes, call_instance_norm},
    {"layer_norm", kComputes, call_layer_norm},
    {"rms_norm", kComputes, call_rms_norm},
};

}  // namespace

std::span<const CaseOp> normalization_ops() { return kOps; }

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
