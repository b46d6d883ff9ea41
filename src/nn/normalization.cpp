#include <lockstep/nn/normalization.h>

#include <fmt/format.h>

#include <lockstep/ops.h>

#include "graph/check.h"

namespace lockstep {
inline namespace v0 {
namespace nn {

BatchNorm2d::BatchNorm2d(Module& parent, std::string name, std::int64_t channels, BatchNormOptions options)
    : Layer(parent, std::move(name)),
      running_mean(*this, "running_mean", zeros({channels})),
      running_var(*this, "running_var", ones({channels})),
      num_batches_tracked(*this, "num_batches_tracked", zeros({}, {.dtype = DType::i64}), {.optional = true}),
      eps_(options.eps) {
  if (!options.affine) return;
  weight = Parameter(*this, "weight", ones({channels}));
  bias = Parameter(*this, "bias", zeros({channels}));
}

Tensor BatchNorm2d::forward(const Operand& x) const {
  if (training()) {
    graph::fail<ValueError>("batch_norm",
                            fmt::format("{} is in training mode, whose statistics are not supported yet",
                                        path().empty() ? "the layer" : path()),
                            {{"input", x}}, "call eval() on the model before using it", x.site());
  }
  if (!x.is_scalar() && x.tensor().defined() && x.tensor().rank() != 4) {
    graph::fail<ShapeError>("batch_norm", "input must be [N, C, H, W]",
                            {{"input", x}, {"running_mean", running_mean.tensor()}}, "", x.site());
  }
  return batch_norm(x, running_mean, running_var, weight.optional(), bias.optional(), eps_);
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

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
