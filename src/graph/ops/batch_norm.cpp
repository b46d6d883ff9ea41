// Normalisation of channels: over the batch (batch_norm) and per sample (instance_norm), in evaluation with running
// statistics and in training with those of the input. Training is a pure function: it returns the new running
// statistics.
#include <fmt/format.h>

#include <lockstep/numerics.h>

#include "graph/autocast.h"
#include "graph/ops/normalization.h"
#include "graph/ops/reduction.h"
#include "graph/recording.h"
#include "graph/window.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

struct Channels {
  Tensor input;
  Tensor x;                     ///< in the working dtype
  Shape shape;                  ///< [C]
  std::uint32_t positions = 0;  ///< the dimensions behind the channels
};

Channels check_channels(const Operand& a) {
  Channels result;
  result.input = check_float_input(a, {}).input;
  const int rank = result.input.rank();
  if (rank < 2) fail<ShapeError>("input must be [N, C, ...]", {{"input", result.input}});
  result.x = cast(result.input, wide(result.input.dtype()));
  result.shape = {result.input.shape()[1]};
  result.positions = ((1u << rank) - 1u) & ~0b11u;
  return result;
}

// In fast numerics Autocast leaves 16-bit pictures as they are, and so are the results: sums are f32 in any case.
bool casts(const Operand& a) {
  if (!is_autocasting()) return false;
  const bool is_narrow = !a.is_scalar() && a.tensor().defined() && size_of(a.tensor().dtype()) == 2;
  return !(is_narrow && is_float(a.tensor().dtype()) && current_numerics() == Numerics::fast);
}

// old * (1 - momentum) + new * momentum, in the dtype of the old value.
Tensor moved(const char* label, const Tensor& old, const Tensor& statistic, const Channels& channels, double momentum) {
  const Tensor before = parameter(label, old, channels.input, channels.shape, channels.x.dtype());
  return cast(before * (1 - momentum) + statistic.reshape(channels.shape) * momentum, old.dtype());
}

Tensor shaped(const char* label, const Tensor& value, const Channels& channels) {
  return per_channel(parameter(label, value, channels.input, channels.shape, channels.x.dtype()), channels.x.rank());
}

// 1 / sqrt(variance + eps) * weight.
Tensor scale_of(const Channels& channels, const Tensor& variance, const std::optional<Tensor>& weight, double eps) {
  const Tensor scale = rsqrt(variance + eps);
  return weight ? scale * shaped("weight", *weight, channels) : scale;
}

// deviation * scale + bias.
Tensor scaled(const Channels& channels, const Tensor& deviation, const Tensor& variance,
              const std::optional<Tensor>& weight, const std::optional<Tensor>& bias, double eps) {
  Tensor y = deviation * scale_of(channels, variance, weight, eps);
  if (bias) y = y + shaped("bias", *bias, channels);
  return cast(y, channels.input.dtype());
}

// Statistics of one element say nothing, and its unbiased variance does not exist.
void check_count(const Channels& channels, std::uint32_t dims) {
  if (count_of(channels.x, dims) > 1) return;
  fail<ValueError>("training needs more than one value per channel", {{"input", channels.input}},
                   "use a larger batch, or evaluation with running statistics");
}

}  // namespace

Tensor batch_norm(const Operand& a, const Tensor& running_mean, const Tensor& running_var,
                  const std::optional<Tensor>& weight, const std::optional<Tensor>& bias, double eps) {
  const CallScope call("batch_norm", a);
  if (casts(a)) return with_autocast(DType::f32, batch_norm, a, running_mean, running_var, weight, bias, eps);
  const AutocastExchange outside(DType::f32);
  const Channels channels = check_channels(a);
  const Tensor variance = shaped("running_var", running_var, channels);
  const Tensor deviation = channels.x - shaped("running_mean", running_mean, channels);
  return recorded(scaled(channels, deviation, variance, weight, bias, eps), "batch_norm",
                  {&channels.input, &running_mean, &running_var, pointer_to(weight), pointer_to(bias)}, {}, {eps});
}

namespace graph {

BatchNormTerms batch_norm_terms(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                                const std::optional<Tensor>& weight, const std::optional<Tensor>& bias, double eps) {
  const Channels channels = check_channels(x);
  BatchNormTerms terms{.mean = shaped("running_mean", running_mean, channels),
                       .scale = scale_of(channels, shaped("running_var", running_var, channels), weight, eps),
                       .bias = {}};
  if (bias) terms.bias = shaped("bias", *bias, channels);
  return terms;
}

Tensor batch_norm_by(const Tensor& x, const BatchNormTerms& terms) {
  Tensor y = (cast(x, wide(x.dtype())) - terms.mean) * terms.scale;
  if (terms.bias.defined()) y = y + terms.bias;
  return cast(y, x.dtype());
}

}  // namespace graph

BatchNormResult batch_norm_training(const Operand& a, const std::optional<Tensor>& running_mean,
                                    const std::optional<Tensor>& running_var, const std::optional<Tensor>& weight,
                                    const std::optional<Tensor>& bias, double momentum, double eps) {
  const CallScope call("batch_norm_training", a);
  if (casts(a)) {
    return with_autocast(DType::f32, batch_norm_training, a, running_mean, running_var, weight, bias, momentum, eps);
  }
  const AutocastExchange outside(DType::f32);
  const RecordsToTheEnd to_the_end;  // so that no flush stores what is widened here
  const Channels channels = check_channels(a);
  const std::uint32_t dims = channels.positions | 1u;
  check_count(channels, dims);
  const double count = count_of(channels.x, dims);
  const Tensor mean = mean_of(channels.x, dims);
  const Tensor deviation = channels.x - mean;
  const Tensor squares = reduce(ReduceOp::dot, deviation, dims, &deviation);
  const Tensor variance = squares / count;
  BatchNormResult result;
  result.output = scaled(channels, deviation, variance, weight, bias, eps);
  result.mean = mean.reshape(channels.shape);
  result.variance = variance.reshape(channels.shape);
  if (running_mean) {
    result.running_mean = moved("running_mean", *running_mean, mean, channels, momentum);
  }
  if (running_var) {
    result.running_var = moved("running_var", *running_var, squares / (count - 1), channels, momentum);
  }
  return result;
}

Tensor instance_norm(const Operand& a, const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
                     double eps) {
  const CallScope call("instance_norm", a);
  if (is_autocasting()) return with_autocast(DType::f32, instance_norm, a, weight, bias, eps);
  return instance_norm_training(a, std::nullopt, std::nullopt, weight, bias, 0, eps).output;
}

InstanceNormResult instance_norm_training(const Operand& a, const std::optional<Tensor>& running_mean,
                                          const std::optional<Tensor>& running_var, const std::optional<Tensor>& weight,
                                          const std::optional<Tensor>& bias, double momentum, double eps) {
  const CallScope call("instance_norm_training", a);
  if (is_autocasting()) {
    return with_autocast(DType::f32, instance_norm_training, a, running_mean, running_var, weight, bias, momentum, eps);
  }
  const Channels channels = check_channels(a);
  check_count(channels, channels.positions);
  const double count = count_of(channels.x, channels.positions);
  const Tensor mean = mean_of(channels.x, channels.positions);
  const Tensor deviation = channels.x - mean;
  const Tensor squares = reduce(ReduceOp::dot, deviation, channels.positions, &deviation);
  Tensor y = deviation * rsqrt(squares / count + eps);
  if (weight) y = y * shaped("weight", *weight, channels);
  if (bias) y = y + shaped("bias", *bias, channels);
  InstanceNormResult result;
  result.output = cast(y, channels.input.dtype());
  if (running_mean) {
    result.running_mean = moved("running_mean", *running_mean, mean_of(mean, 1u), channels, momentum);
  }
  if (running_var) {
    const Tensor unbiased = mean_of(squares / (count - 1), 1u);
    result.running_var = moved("running_var", *running_var, unbiased, channels, momentum);
  }
  return result;
}

}  // namespace v0
}  // namespace lockstep
