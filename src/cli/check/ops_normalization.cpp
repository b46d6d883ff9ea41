#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

// The last dimension, or a scalar's none.
Shape last(Probe& p) {
  return p.rank() == 0 ? Shape{} : Shape{p.size(p.rank() - 1)};
}
Shape channels(Probe& p) {
  return {p.size(1)};
}

Tensors all_of(const BatchNormResult& r) {
  return {r.output, r.mean, r.variance, r.running_mean, r.running_var};
}
Tensors all_of(const InstanceNormResult& r) {
  return {r.output, r.running_mean, r.running_var};
}

const CheckOp kNormalizationOps[] = {
    {"layer_norm", Form::rows, 2,
     [](Probe& p) -> Tensors {
       if (p.variant() == 0) return {layer_norm(p.x(), last(p))};
       return {layer_norm(p.x(), last(p), p.x(last(p)), p.x(last(p)))};
     }},
    {"rms_norm", Form::rows, 2,
     [](Probe& p) -> Tensors {
       return {p.variant() == 0 ? rms_norm(p.x(), last(p)) : rms_norm(p.x(), last(p), p.x(last(p)), 1e-5)};
     }},
    {"group_norm", Form::image, 2,
     [](Probe& p) -> Tensors {
       if (p.variant() == 0) return {group_norm(p.x(), 2)};
       return {group_norm(p.x(), 4, p.x(channels(p)), p.x(channels(p)))};
     }},
    {"batch_norm", Form::image, 2,
     [](Probe& p) -> Tensors {
       const Tensor mean = p.x(channels(p));
       const Tensor variance = p.positive(channels(p));
       if (p.variant() == 0) return {batch_norm(p.x(), mean, variance)};
       return {batch_norm(p.x(), mean, variance, p.x(channels(p)), p.x(channels(p)))};
     }},
    {"batch_norm_training", Form::image, 2,
     [](Probe& p) -> Tensors {
       const Tensor mean = p.x(channels(p));
       const Tensor variance = p.positive(channels(p));
       if (p.variant() == 0) return all_of(batch_norm_training(p.x(), mean, variance));
       return all_of(batch_norm_training(p.x(), mean, variance, p.x(channels(p)), p.x(channels(p))));
     }},
    {"instance_norm", Form::image, 2,
     [](Probe& p) -> Tensors {
       if (p.variant() == 0) return {instance_norm(p.x())};
       return {instance_norm(p.x(), p.x(channels(p)), p.x(channels(p)))};
     }},
    {"instance_norm_training", Form::image, 1,
     [](Probe& p) -> Tensors {
       const Tensor mean = p.x(channels(p));
       return all_of(instance_norm_training(p.x(), mean, p.positive(channels(p))));
     }},
    {"local_response_norm", Form::image, 2,
     [](Probe& p) -> Tensors {
       return {local_response_norm(p.x(), p.variant() == 0 ? 3 : 2, {.alpha = 0.5, .k = 2})};
     }},
    {"normalize", Form::rows, 3,
     [](Probe& p) -> Tensors { return {normalize(p.x(), p.variant() == 2 ? 1 : 2, p.dim())}; }},
    {"weight_norm", Form::image, 1,
     [](Probe& p) -> Tensors {
       return {weight_norm(p.x(), p.x({p.size(0), 1, 1, 1}))};
     }},
};

}  // namespace

std::span<const CheckOp> check_normalization_ops() {
  return kNormalizationOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
