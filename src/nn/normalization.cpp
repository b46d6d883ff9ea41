#include <lockstep/nn/normalization.h>

#include <array>
#include <cstdint>
#include <mutex>

#include <fmt/format.h>

#include <lockstep/check.h>
#include <lockstep/ops.h>

#include "graph/autocast.h"
#include "graph/make.h"
#include "graph/ops/normalization.h"
#include "graph/recording.h"
#include "graph/tape.h"

namespace lockstep {
inline namespace v0 {
namespace nn {
namespace {

// The parameters and buffers of a norm of channels.
template <typename Norm, typename Options> void add_parts(Norm& norm, std::int64_t channels, const Options& options) {
  if (options.track_running_stats) {
    norm.running_mean = Buffer(norm, "running_mean", zeros({channels}));
    norm.running_var = Buffer(norm, "running_var", ones({channels}));
    norm.num_batches_tracked =
        Buffer(norm, "num_batches_tracked", zeros({}, {.dtype = DType::i64}), {.optional = true});
  }
  if (!options.affine) return;
  norm.weight = Parameter(norm, "weight", ones({channels}));
  norm.bias = Parameter(norm, "bias", zeros({channels}));
}

}  // namespace

// They hold for inputs of one rank, and as long as the weights are the same values. Training lets go of them: they hold
// memory that optimisers write in place.
struct BatchNorm::Terms {
  std::mutex mutex;
  std::array<std::uint64_t, 4> weights{};  ///< numbers of their nodes
  int rank = 0;                            ///< 0: there are none
  graph::BatchNormTerms terms;

  void clear() {
    const std::lock_guard lock(mutex);
    rank = 0;
    terms = {};
  }
};

BatchNorm::BatchNorm(Module& parent, std::string name, std::int64_t channels, const BatchNormOptions& options,
                     int least_rank, int most_rank)
    : Layer(parent, std::move(name)),
      eps_(options.eps),
      momentum_(options.momentum),
      least_rank_(least_rank),
      most_rank_(most_rank),
      terms_(std::make_shared<Terms>()) {
  add_parts(*this, channels, options);
}

Tensor BatchNorm::forward(const Operand& x) const {
  const CallScope call("batch_norm", x);
  const bool tensor = !x.is_scalar() && x.tensor().defined();
  if (tensor && (x.tensor().rank() < least_rank_ || x.tensor().rank() > most_rank_)) {
    const char* const sizes = most_rank_ == 3   ? "[N, C] or [N, C, L]"
                              : most_rank_ == 4 ? "[N, C, H, W]"
                                                : "[N, C, D, H, W]";
    fail<ShapeError>(fmt::format("input must be {}", sizes), {{"input", x}});
  }
  if (!running_mean.defined()) {
    return batch_norm_training(x, {}, {}, weight.optional(), bias.optional(), 0, eps_).output;
  }
  if (!training()) return inference(x);
  terms_->clear();
  const Tensor batches = num_batches_tracked.tensor() + 1;
  const double momentum = momentum_ ? *momentum_ : 1.0 / static_cast<double>(batches.item<std::int64_t>());
  const BatchNormResult result =
      batch_norm_training(x, running_mean, running_var, weight.optional(), bias.optional(), momentum, eps_);
  // Copies of a cell share its slot.
  Buffer(running_mean).set(result.running_mean);
  Buffer(running_var).set(result.running_var);
  Buffer(num_batches_tracked).set(batches);
  return result.output;
}

// batch_norm with what depends on the weights alone computed once, where only the result is wanted of it.
Tensor BatchNorm::inference(const Operand& x) const {
  std::array<std::uint64_t, 4> weights{};
  bool fits = !x.is_scalar() && x.tensor().defined() && !graph::is_autocasting() && !graph::is_recording() &&
              !graph::is_tracing({&x.tensor()}) && is_float(x.tensor().dtype()) &&
              x.tensor().shape()[1] == running_mean.shape()[0];
  const std::array<const Cell*, 4> cells{&running_mean, &running_var, &weight, &bias};
  for (std::size_t i = 0; i < cells.size() && fits; ++i) {
    if (!cells[i]->defined()) continue;
    const Tensor& value = cells[i]->tensor();
    weights[i] = graph::node_of(value)->id;
    fits = (value.dtype() == x.tensor().dtype() || value.dtype() == graph::wide(x.tensor().dtype())) &&
           value.device() == x.tensor().device() && !graph::is_tracing({&value});
  }
  if (!fits) {
    terms_->clear();
    return batch_norm(x, running_mean, running_var, weight.optional(), bias.optional(), eps_);
  }
  const auto terms = [&] {
    const std::lock_guard lock(terms_->mutex);
    const int rank = x.tensor().rank();
    if (terms_->weights != weights || terms_->rank != rank) {
      terms_->terms =
          graph::batch_norm_terms(x.tensor(), running_mean, running_var, weight.optional(), bias.optional(), eps_);
      terms_->weights = weights;
      terms_->rank = rank;
    }
    return terms_->terms;
  };
  return graph::batch_norm_by(x.tensor(), terms());
}

LayerNorm::LayerNorm(Module& parent, std::string name, const Shape& normalized_shape, LayerNormOptions options)
    : Layer(parent, std::move(name)), normalized_shape_(normalized_shape), eps_(options.eps) {
  if (!options.affine) return;
  weight = Parameter(*this, "weight", ones(normalized_shape));
  if (options.bias) bias = Parameter(*this, "bias", zeros(normalized_shape));
}

Tensor LayerNorm::forward(const Operand& x) const {
  return layer_norm(x, normalized_shape_, weight.optional(), bias.optional(), eps_);
}

GroupNorm::GroupNorm(Module& parent, std::string name, std::int64_t groups, std::int64_t channels,
                     GroupNormOptions options)
    : Layer(parent, std::move(name)), groups_(groups), eps_(options.eps) {
  if (groups < 1 || channels % groups != 0) {
    throw ValueError(fmt::format("{}: {} groups do not divide {} channels", path(), groups, channels));
  }
  if (!options.affine) return;
  weight = Parameter(*this, "weight", ones({channels}));
  bias = Parameter(*this, "bias", zeros({channels}));
}

Tensor GroupNorm::forward(const Operand& x) const {
  return group_norm(x, groups_, weight.optional(), bias.optional(), eps_);
}

RMSNorm::RMSNorm(Module& parent, std::string name, const Shape& normalized_shape, RMSNormOptions options)
    : Layer(parent, std::move(name)), normalized_shape_(normalized_shape), eps_(options.eps) {
  if (options.affine) weight = Parameter(*this, "weight", ones(normalized_shape));
}

Tensor RMSNorm::forward(const Operand& x) const {
  return rms_norm(x, normalized_shape_, weight.optional(), eps_);
}

InstanceNorm::InstanceNorm(Module& parent, std::string name, std::int64_t channels, const InstanceNormOptions& options,
                           int spatial_dims)
    : Layer(parent, std::move(name)),
      channels_(channels),
      eps_(options.eps),
      momentum_(options.momentum),
      spatial_dims_(spatial_dims) {
  add_parts(*this, channels, options);
}

Tensor InstanceNorm::forward(const Operand& operand) const {
  const CallScope call("instance_norm", operand);
  const Tensor& given = tensor_operand(operand);
  const bool single = given.rank() == spatial_dims_ + 1;
  const int channel_dim = single ? 0 : 1;
  if ((!single && given.rank() != spatial_dims_ + 2) || given.shape()[channel_dim] != channels_) {
    fail<ShapeError>(
        fmt::format("input must be [N, {0}, ...] or [{0}, ...] with {1} spatial dimensions", channels_, spatial_dims_),
        {{"input", operand}});
  }
  const Tensor batch = single ? given.unsqueeze(0) : given;
  const Operand x(batch);
  Tensor y;
  if (!running_mean.defined()) {
    y = instance_norm(x, weight.optional(), bias.optional(), eps_);
  } else if (!training()) {
    y = batch_norm(x, running_mean, running_var, weight.optional(), bias.optional(), eps_);
  } else {
    const Tensor batches = num_batches_tracked.tensor() + 1;
    const double momentum = momentum_ ? *momentum_ : 1.0 / static_cast<double>(batches.item<std::int64_t>());
    const InstanceNormResult result = instance_norm_training(x, running_mean.tensor(), running_var.tensor(),
                                                             weight.optional(), bias.optional(), momentum, eps_);
    // Copies of a cell share its slot.
    Buffer(running_mean).set(result.running_mean);
    Buffer(running_var).set(result.running_var);
    Buffer(num_batches_tracked).set(batches);
    y = result.output;
  }
  return single ? y.squeeze(0) : y;
}

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
