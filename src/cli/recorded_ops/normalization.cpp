#include "cli/recorded_ops/families.h"

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

Tensors call_instance_norm(Arguments& a) {
  const std::optional<Tensor> mean = a.named("running_mean");
  const std::optional<Tensor> variance = a.named("running_var");
  const double eps = a.real("eps", 1e-5);
  const double momentum = a.real("momentum", 0.1);
  if (!mean) return {instance_norm(a[0], a.named("weight"), a.named("bias"), eps)};
  const InstanceNormResult result =
      instance_norm_training(a[0], mean, variance, a.named("weight"), a.named("bias"), momentum, eps);
  return {result.output, result.running_mean, result.running_var};
}

Tensors call_batch_norm(Arguments& a) {
  const std::optional<Tensor> mean = a.named("running_mean");
  const std::optional<Tensor> variance = a.named("running_var");
  const double eps = a.real("eps", 1e-5);
  const double momentum = a.real("momentum", 0.1);
  if (a.flag("training")) {
    const BatchNormResult result =
        batch_norm_training(a[0], mean, variance, a.named("weight"), a.named("bias"), momentum, eps);
    if (!mean) return {result.output};
    return {result.output, result.running_mean, result.running_var};
  }
  if (!mean || !variance) throw Unsupported("no running statistics");
  return {batch_norm(a[0], *mean, *variance, a.named("weight"), a.named("bias"), eps)};
}

Tensors call_local_response_norm(Arguments& a) {
  return {local_response_norm(a[0], a.integer("size"),
                              {.alpha = a.real("alpha", 1e-4), .beta = a.real("beta", 0.75), .k = a.real("k", 1)})};
}

Tensors call_normalize(Arguments& a) {
  return {normalize(a[0], a.real("p", 2), static_cast<int>(a.integer("dim", 1)), a.real("eps", 1e-12))};
}

Tensors call_weight_norm(Arguments& a) {
  return {weight_norm(a[0], a[1], static_cast<int>(a.integer("dim", 0)))};
}

constexpr RecordedOp kNormalizationOps[] = {
    {"batch_norm", kComputes, call_batch_norm},
    {"group_norm", kComputes, call_group_norm},
    {"instance_norm", kComputes, call_instance_norm},
    {"layer_norm", kComputes, call_layer_norm},
    {"local_response_norm", kComputes, call_local_response_norm},
    {"normalize", kComputes, call_normalize},
    {"rms_norm", kComputes, call_rms_norm},
    {"weight_norm", kComputes, call_weight_norm},
};

}  // namespace

std::span<const RecordedOp> normalization_ops() {
  return kNormalizationOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
