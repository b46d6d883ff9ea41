// Normalisations.
#include <lockstep/ops.h>

#include "io/onnx/operators.h"
#include "io/onnx/ops/arguments.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

std::optional<Tensor> given(const Call& call, std::size_t i) {
  const Tensor tensor = call.optional_input(i);
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

// Before version 14 the outputs that only training has say so, and before 7 an attribute.
bool trains(const NodeFacts& node) {
  if (node.version() >= 14) return node.integer("training_mode", 0) != 0;
  return node.version() >= 7 ? node.wants(1) : node.integer("is_test", 0) == 0;
}

std::vector<Tensor> batch_normalization(const Call& call) {
  const Tensor& x = call.input(0);
  const double eps = call.number("epsilon", 1e-5f);
  const Tensor& mean = call.input(3);
  const Tensor& variance = call.input(4);
  if (!trains(call)) {
    return {batch_norm(x, mean, variance, call.input(1), call.input(2), eps)};
  }
  // The running statistics move the other way than PyTorch's, and by the variance that is divided by n.
  const BatchNormResult result =
      batch_norm_training(x, std::nullopt, std::nullopt, call.input(1), call.input(2), 0.1, eps);
  const double keeps = call.number("momentum", 0.9f);
  const auto moved = [&](const Tensor& running, const Tensor& batch) {
    return add(mul(running, keeps), mul(batch.to(running.dtype()), 1 - keeps));
  };
  std::vector<Tensor> outputs = {result.output, moved(mean, result.mean), moved(variance, result.variance)};
  if (call.version() < 14) outputs.insert(outputs.end(), {result.mean, result.variance});
  return outputs;
}

std::string check_batch_normalization(const NodeFacts& node) {
  if (node.version() < 9 && node.integer("spatial", 1) == 0) return "spatial=0";
  return "";
}

Shape trailing(const Call& call, std::int64_t fallback) {
  const Shape& shape = call.shape(0);
  return shape.slice(axis_of(call, call.integer("axis", fallback), shape.rank()), shape.rank());
}

// Also the mean and 1 / deviation, if they are wanted.
std::vector<Tensor> layer_normalization(const Call& call) {
  const Tensor& x = call.input(0);
  const Shape shape = trailing(call, -1);
  const double eps = call.number("epsilon", 1e-5f);
  const auto as_shape = [&](const std::optional<Tensor>& t) { return t ? std::optional(t->reshape(shape)) : t; };
  std::vector<Tensor> outputs = {layer_norm(x, shape, as_shape(given(call, 1)), as_shape(given(call, 2)), eps)};
  if (!call.wants(1) && !call.wants(2)) return outputs;
  Dims dims;
  for (int d = x.rank() - shape.rank(); d < x.rank(); ++d) dims.push_back(d);
  const auto [variance, average] = var_mean(x.to(DType::f32), dims, true, 0);
  outputs.push_back(average);
  outputs.push_back(rsqrt(add(variance, eps)));
  return outputs;
}

std::vector<Tensor> rms_normalization(const Call& call) {
  const Shape shape = trailing(call, -1);
  const Tensor weight = call.input(1);
  const double eps = call.number("epsilon", 1e-5f);
  if (weight.numel() == shape.numel()) return {rms_norm(call.input(0), shape, weight.reshape(shape), eps)};
  return {mul(rms_norm(call.input(0), shape, std::nullopt, eps), weight)};
}

std::vector<Tensor> instance_normalization(const Call& call) {
  return {instance_norm(call.input(0), given(call, 1), given(call, 2), call.number("epsilon", 1e-5f))};
}

// Scale and bias are per group until version 20.
std::vector<Tensor> group_normalization(const Call& call) {
  const Tensor& x = call.input(0);
  const std::int64_t groups = call.integer("num_groups");
  call.require(groups > 0 && x.rank() >= 2 && x.shape()[1] % groups == 0, "the groups do not divide the channels");
  Tensor scale = call.input(1);
  Tensor bias = call.input(2);
  if (call.version() < 21) {
    const std::int64_t each = x.shape()[1] / groups;
    const auto per_channel = [&](const Tensor& t) {
      return t.reshape({groups, 1}).expand({groups, each}).reshape({-1});
    };
    scale = per_channel(scale);
    bias = per_channel(bias);
  }
  return {group_norm(x, groups, scale, bias, call.number("epsilon", 1e-5f))};
}

std::vector<Tensor> lrn(const Call& call) {
  const LocalResponseNormOptions options{
      .alpha = call.number("alpha", 1e-4f), .beta = call.number("beta", 0.75f), .k = call.number("bias", 1)};
  return {local_response_norm(call.input(0), call.integer("size"), options)};
}

std::vector<Tensor> lp_normalization(const Call& call) {
  const Tensor& x = call.input(0);
  const int axis = axis_of(call, call.integer("axis", -1), x.rank());
  const std::int64_t p = call.integer("p", 2);
  const Tensor size = p == 1 ? sum(abs(x), {axis}, true) : sqrt(sum(mul(x, x), {axis}, true));
  return {where(eq(size, 0), zeros_like(x), div(x, size))};
}

std::vector<Tensor> mean_variance_normalization(const Call& call) {
  const Tensor& x = call.input(0);
  const Dims dims = dims_of(axes_of(call, call.integers("axes", {0, 2, 3}), x.rank()));
  const Tensor average = mean(x, dims, true);
  const Tensor variance = sub(mean(mul(x, x), dims, true), mul(average, average));
  return {div(sub(x, average), add(sqrt(variance), 1e-9))};
}

constexpr Operator kNormalizationOperators[] = {
    {.name = "BatchNormalization", .run = batch_normalization, .check = check_batch_normalization},
    {.name = "LayerNormalization", .since = 17, .run = layer_normalization},
    {.name = "RMSNormalization", .since = 23, .run = rms_normalization},
    {.name = "InstanceNormalization", .since = 6, .run = instance_normalization},
    {.name = "GroupNormalization", .since = 18, .run = group_normalization},
    {.name = "LRN", .run = lrn},
    {.name = "LpNormalization", .run = lp_normalization},
    {.name = "MeanVarianceNormalization", .since = 9, .run = mean_variance_normalization},
};

}  // namespace

std::span<const Operator> normalization_operators() {
  return kNormalizationOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
