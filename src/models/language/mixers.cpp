#include "models/language/mixers.h"

#include <cmath>
#include <optional>

#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace models {

CausalConvolution::CausalConvolution(ParameterTree& tree, const std::string& path, std::int64_t channels,
                                     std::int64_t kernel, bool bias)
    : kernel_(kernel), weight_(tree.matrix(path + ".weight", {channels, 1, kernel})), has_bias_(bias) {
  if (bias) bias_ = tree.filled(path + ".bias", {channels}, 0);
}

Tensor CausalConvolution::operator()(const Tensor& x, Tensor& last) const {
  const std::int64_t before = kernel_ - 1;
  const Tensor past =
      last.defined() ? last : zeros({x.size(0), before, x.size(2)}, {.dtype = x.dtype(), .device = x.device()});
  const Tensor all = cat({past, x}, 1);
  last = all.narrow(1, all.size(1) - before, before);
  std::optional<Tensor> bias;
  if (has_bias_) bias = Tensor(bias_);
  return conv1d(all.transpose(1, 2), weight_, bias, {.groups = x.size(2)}).transpose(1, 2);
}

ConvolutionMixer::ConvolutionMixer(ParameterTree& tree, const std::string& path, std::int64_t hidden,
                                   const ConvolutionConfig& config)
    : in_(tree, path + "in_proj", hidden, 3 * hidden, config.bias),
      out_(tree, path + "out_proj", hidden, hidden, config.bias),
      convolution_(tree, path + "conv", hidden, config.kernel, config.bias) {}

Tensor ConvolutionMixer::operator()(const Tensor& x, State& state) const {
  state.resize(1);
  const std::vector<Tensor> parts = in_(x).chunk(3, -1);
  return out_(parts[1] * convolution_(parts[0] * parts[2], state[0]));
}

DeltaMixer::DeltaMixer(ParameterTree& tree, const std::string& path, std::int64_t hidden, const DeltaConfig& config)
    : config_(config) {
  const std::int64_t keys = config.key_heads * config.key_size;
  const std::int64_t values = config.value_heads * config.value_size;
  in_ = Projection(tree, path + "in_proj_qkvz", hidden, 2 * keys + 2 * values, false);
  rates_ = Projection(tree, path + "in_proj_ba", hidden, 2 * config.value_heads, false);
  convolution_ = CausalConvolution(tree, path + "conv1d", 2 * keys + values, config.kernel, false);
  decay_ = tree.filled(path + "A_log", {config.value_heads}, 0);
  step_bias_ = tree.filled(path + "dt_bias", {config.value_heads}, 1);
  norm_ = Norm(tree, path + "norm", config.value_size, {.eps = config.eps});
  out_ = Projection(tree, path + "out_proj", values, hidden, false);
}

Tensor DeltaMixer::operator()(const Tensor& x, State& state) const {
  state.resize(2);
  const std::int64_t shared = config_.value_heads / config_.key_heads;
  const std::int64_t keys = config_.key_heads * config_.key_size;
  const std::int64_t values = config_.value_heads * config_.value_size;
  // Of each head of keys: its query, its key, the values of its heads, and their gates.
  const std::int64_t wide = shared * config_.value_size;
  const std::vector<Tensor> parts =
      in_(x)
          .unflatten(-1, {config_.key_heads, -1})
          .split(std::vector<std::int64_t>{config_.key_size, config_.key_size, wide, wide}, -1);
  const std::vector<Tensor> rates = rates_(x).unflatten(-1, {config_.key_heads, -1}).chunk(2, -1);
  const Tensor together = cat({parts[0].flatten(-2, -1), parts[1].flatten(-2, -1), parts[2].flatten(-2, -1)}, -1);
  const std::vector<Tensor> mixed =
      silu(convolution_(together, state[0])).split(std::vector<std::int64_t>{keys, keys, values}, -1);
  // [N, L, value heads, size] of length one, each for the heads that share it.
  const auto directions = [&](const Tensor& y) {
    const Tensor heads = y.unflatten(-1, {config_.key_heads, 1, config_.key_size});
    const Tensor unit = heads * rsqrt(sum(heads * heads, {-1}, true) + 1e-6);
    return unit.expand({-1, -1, -1, shared, -1}).flatten(2, 3);
  };
  const Tensor query = directions(mixed[0]) * (1 / std::sqrt(static_cast<double>(config_.key_size)));
  const Tensor key = directions(mixed[1]);
  const Tensor value = mixed[2].unflatten(-1, {config_.value_heads, config_.value_size});
  const Tensor strength = sigmoid(rates[0].flatten(-2, -1));
  const Tensor kept = exp(-exp(Tensor(decay_)) * softplus(rates[1].flatten(-2, -1) + Tensor(step_bias_)));
  if (!state[1].defined()) {
    state[1] = zeros({x.size(0), config_.value_heads, config_.key_size, config_.value_size}, {.device = x.device()});
  }
  std::vector<Tensor> outputs;
  for (std::int64_t t = 0; t < x.size(1); ++t) {
    const Tensor k = key.select(1, t);
    const Tensor faded = state[1] * kept.select(1, t).unsqueeze(-1).unsqueeze(-1);
    const Tensor known = matmul(k.unsqueeze(-2), faded).squeeze(-2);
    const Tensor error = (value.select(1, t) - known) * strength.select(1, t).unsqueeze(-1);
    state[1] = faded + k.unsqueeze(-1) * error.unsqueeze(-2);
    outputs.push_back(matmul(query.select(1, t).unsqueeze(-2), state[1]).squeeze(-2));
  }
  const Tensor gate = parts[3].flatten(-2, -1).unflatten(-1, {config_.value_heads, config_.value_size});
  return out_((norm_(stack(outputs, 1)) * silu(gate)).flatten(-2, -1));
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
