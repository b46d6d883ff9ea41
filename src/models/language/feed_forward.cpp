#include "models/language/feed_forward.h"

#include <limits>

#include <fmt/format.h>

#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace models {

FeedForward::FeedForward(ParameterTree& tree, const FeedForwardConfig& config, const std::string& gate,
                         const std::string& up, const std::string& down, std::int64_t hidden, bool transposed)
    : config_(config) {
  const std::int64_t wide = config.fused ? 2 * config.size : config.size;
  if (config.gated && !config.fused) gate_ = Projection(tree, gate, hidden, config.size, config.bias, transposed);
  up_ = Projection(tree, up, hidden, wide, config.bias, transposed);
  down_ = Projection(tree, down, config.size, hidden, config.bias, transposed);
}

Tensor FeedForward::operator()(const Tensor& x) const {
  if (!config_.gated) return down_(activate(config_.activation, up_(x)));
  if (!config_.fused) return down_(activate(config_.activation, gate_(x)) * up_(x));
  const std::vector<Tensor> halves = up_(x).chunk(2, -1);
  return down_(activate(config_.activation, halves[0]) * halves[1]);
}

Experts::Experts(ParameterTree& tree, const std::string& layer, const DecoderConfig& config) : config_(config.experts) {
  const LayerNames& names = config.names.layer;
  router_ = Projection(tree, layer + names.router, config.hidden, config_.count, config_.router_bias);
  if (config_.gate == ExpertsConfig::Gate::sigmoid) {
    correction_ = tree.buffer(layer + names.router + ".e_score_correction_bias", {config_.count});
  }
  if (config_.stacked) {
    const std::string path = layer + names.experts;
    gate_up_ = tree.matrix(path + ".gate_up_proj", {config_.count, config.hidden, 2 * config_.size});
    gate_up_bias_ = tree.filled(path + ".gate_up_proj_bias", {config_.count, 2 * config_.size}, 0);
    down_ = tree.matrix(path + ".down_proj", {config_.count, config_.size, config.hidden});
    down_bias_ = tree.filled(path + ".down_proj_bias", {config_.count, config.hidden}, 0);
    return;
  }
  FeedForwardConfig one = config.feed;
  one.fused = false;
  one.size = config_.size;
  for (std::int64_t e = 0; e < config_.count; ++e) {
    const std::string path = fmt::format("{}{}.{}.", layer, names.experts, e);
    experts_.emplace_back(tree, one, path + names.expert_gate, path + names.expert_up, path + names.expert_down,
                          config.hidden);
  }
  if (config_.shared > 0) {
    one.size = config_.shared;
    const std::string path = layer + names.shared + ".";
    shared_ = FeedForward(tree, one, path + names.expert_gate, path + names.expert_up, path + names.expert_down,
                          config.hidden);
    if (config_.shared_gate) shared_gate_ = Projection(tree, layer + names.shared_gate, config.hidden, 1, false);
  }
}

// x [T, hidden] to [T, experts]: zero for experts that a token does not use.
Tensor Experts::weights(const Tensor& x) const {
  const Tensor logits = router_(x);
  Tensor chosen;
  Tensor values;
  if (config_.gate == ExpertsConfig::Gate::softmax_of_top) {
    const ValuesIndices best = topk(logits, config_.used);
    chosen = best.indices;
    values = softmax(best.values, -1);
  } else if (config_.gate == ExpertsConfig::Gate::softmax) {
    const ValuesIndices best = topk(softmax(logits, -1), config_.used);
    chosen = best.indices;
    values = best.values;
  } else {
    const Tensor scores = sigmoid(logits);
    Tensor ranked = scores + Tensor(correction_);
    if (config_.groups > 1) {
      // A group counts by its two best experts; the experts of other groups are out.
      const Tensor grouped = ranked.unflatten(-1, {config_.groups, -1});
      const Tensor of_groups = sum(topk(grouped, 2).values, {-1});
      const Tensor groups = topk(of_groups, config_.used_groups).indices;
      const Tensor kept = scatter(zeros_like(of_groups), -1, groups, ones_like(of_groups)) > 0;
      const double never = -std::numeric_limits<double>::infinity();
      ranked = where(kept.unsqueeze(-1), grouped, never).flatten(-2, -1);
    }
    chosen = topk(ranked, config_.used).indices;
    values = gather(scores, -1, chosen);
  }
  if (config_.normalize) values = values / sum(values, {-1}, true);
  if (config_.scale != 1) values = values * config_.scale;
  return scatter(zeros_like(logits), -1, chosen, values);
}

// gpt-oss: gates and values are neighbours, clamped, and the value counts one more.
Tensor Experts::stacked_expert(const Tensor& x, std::int64_t expert) const {
  const auto of = [&](const nn::Parameter& parameter) { return Tensor(parameter).select(0, expert); };
  const Tensor both = matmul(x, of(gate_up_)) + of(gate_up_bias_);
  const Tensor gate = minimum(both.slice(-1, {.step = 2}), config_.limit);
  const Tensor up = clamp(both.slice(-1, {.start = 1, .step = 2}), -config_.limit, config_.limit);
  const Tensor inner = (up + 1) * (gate * sigmoid(gate * config_.alpha));
  return matmul(inner, of(down_)) + of(down_bias_);
}

Tensor Experts::operator()(const Tensor& x) const {
  const Tensor tokens = x.flatten(0, 1);
  const Tensor share = weights(tokens);
  Tensor total;
  for (std::int64_t e = 0; e < config_.count; ++e) {
    const Tensor result = config_.stacked ? stacked_expert(tokens, e) : experts_[static_cast<std::size_t>(e)](tokens);
    const Tensor part = result * share.narrow(-1, e, 1);
    total = e == 0 ? part : total + part;
  }
  if (config_.shared > 0) {
    const Tensor all = shared_(tokens);
    total = total + (config_.shared_gate ? sigmoid(shared_gate_(tokens)) * all : all);
  }
  return total.reshape(x.shape());
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
