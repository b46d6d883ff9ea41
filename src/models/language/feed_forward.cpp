#include "models/language/feed_forward.h"

#include <algorithm>
#include <bit>
#include <limits>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/ops.h>

#include "graph/recording.h"

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

Tensor FeedForward::inner(const Tensor& gate, const Tensor& up) const {
  if (!config_.clamped) return activate(config_.activation, gate) * up;
  const Tensor bounded = minimum(gate, config_.limit);
  return (clamp(up, -config_.limit, config_.limit) + 1) * (bounded * sigmoid(bounded * config_.alpha));
}

Tensor FeedForward::operator()(const Tensor& x) const {
  if (!config_.gated) return down_(activate(config_.activation, up_(x)));
  if (!config_.fused) return down_(inner(gate_(x), up_(x)));
  const std::vector<Tensor> halves = up_(x).chunk(2, -1);
  return down_(inner(halves[0], halves[1]));
}

void FeedForward::give_to_one(bool here, Device device) {
  for (Projection* projection : {&gate_, &up_, &down_}) projection->give_to_one(here, device);
}

Experts::Experts(ParameterTree& tree, const std::string& layer, const DecoderConfig& config) : config_(config.experts) {
  const LayerNames& names = config.names.layer;
  router_ = Projection(tree, layer + names.router, config.hidden, config_.count, config_.router_bias);
  if (config_.gate == ExpertsConfig::Gate::sigmoid) {
    correction_ = tree.buffer(layer + names.router + ".e_score_correction_bias", {config_.count});
  }
  if (config_.stacked) {
    const std::string path = layer + names.experts;
    stacked_.config_ = config.feed;
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

Experts::Routes Experts::routes(const Tensor& x) const {
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
  return {chosen, values};
}

Tensor Experts::expert(const Tensor& x, std::int64_t number) const {
  if (!config_.stacked) return experts_[static_cast<std::size_t>(number)](x);
  const auto of = [&](const nn::Parameter& parameter) { return Tensor(parameter).select(0, number); };
  const auto matrix = [&](const nn::Parameter& all, const Tensor Divided::*own) {
    return divided_ ? ((*divided_).*own).select(0, number - divided_->experts.first()) : of(all);
  };
  // Gates and values are neighbours.
  const Tensor both = matmul(x, matrix(gate_up_, &Divided::gate_up)) + of(gate_up_bias_);
  const Tensor inner = stacked_.inner(both.slice(-1, {.step = 2}), both.slice(-1, {.start = 1, .step = 2}));
  return matmul(inner, matrix(down_, &Divided::down)) + of(down_bias_);
}

void Experts::divide(const dist::Group& group, Device device) {
  if (config_.count < group.size()) return;
  divided_ = Divided{.experts = RankCuts(group, config_.count), .gate_up = {}, .down = {}};
  router_.give_to_one(true, device);  // every rank needs all of what it gives: it is small
  if (config_.stacked) {
    divided_->gate_up = own_slices(detach(gate_up_), divided_->experts, device);
    divided_->down = own_slices(detach(down_), divided_->experts, device);
    take_away(gate_up_, device);
    take_away(down_, device);
    return;
  }
  for (std::int64_t e = 0; e < config_.count; ++e) {
    experts_[static_cast<std::size_t>(e)].give_to_one(divided_->experts.has(e), device);
  }
}

Tensor Experts::all_of_all(const Tensor& tokens, const Routes& routes) const {
  const Tensor none = zeros({tokens.size(0), config_.count}, {.device = tokens.device()});
  const Tensor shares = scatter(none, -1, routes.chosen, routes.shares);
  const Tensor used = scatter(none, -1, routes.chosen, ones_like(routes.shares)) > 0;
  Tensor total = zeros_like(tokens);
  for (std::int64_t e = 0; e < config_.count; ++e) {
    total = total + where(used.narrow(-1, e, 1), expert(tokens, e) * shares.narrow(-1, e, 1), 0);
  }
  return total;
}

namespace {

// So many rows are computed for `count`: few different numbers, so that plans are met again, and little in vain.
std::size_t rows_for(std::size_t count) {
  const std::size_t step = std::max<std::size_t>(1, std::bit_ceil(count) / 8);
  return (count + step - 1) / step * step;
}

}  // namespace

Tensor Experts::each_its_own(const Tensor& tokens, const Routes& routes) const {
  const std::int64_t count = tokens.size(0);
  const std::vector<std::int64_t> chosen = routes.chosen.to_vector<std::int64_t>();
  const std::vector<float> shares = routes.shares.to_vector<float>();
  struct Own {
    std::vector<std::int64_t> tokens;
    std::vector<float> shares;
  };
  std::vector<Own> of(static_cast<std::size_t>(config_.count));
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    Own& own = of[static_cast<std::size_t>(chosen[i])];
    own.tokens.push_back(static_cast<std::int64_t>(i) / config_.used);
    own.shares.push_back(shares[i]);
  }
  // A last row of zeros is what fills rows up.
  const bool one = count == 1;
  const Tensor padded = one ? tokens : pad(tokens, {0, 0, 0, 1});
  std::vector<std::int64_t> rows;  // by expert, as these
  std::vector<Tensor> indices;
  for (Own& own : of) {
    if (!own.tokens.empty()) own.tokens.resize(rows_for(own.tokens.size()), count);
    own.shares.resize(own.tokens.size(), 0);
    rows.push_back(static_cast<std::int64_t>(own.tokens.size()));
    const bool is_read = !one && rows.back() > 0;
    indices.push_back(is_read ? Tensor::from(own.tokens, {rows.back()}, tokens.device()) : Tensor());
  }
  const auto part_of = [&](std::int64_t e) {
    const auto at = static_cast<std::size_t>(e);
    const Tensor share = Tensor::from(of[at].shares, {rows[at], 1}, tokens.device());
    return expert(one ? tokens : index_select(padded, 0, indices[at]), e) * share;
  };
  std::vector<Tensor> parts;
  if (divided_) parts = parts_of_all(divided_->experts, rows, tokens, part_of);
  Tensor total = zeros_like(padded);
  for (std::int64_t e = 0; e < config_.count; ++e) {
    if (rows[static_cast<std::size_t>(e)] == 0) continue;
    const Tensor part = divided_ ? parts[static_cast<std::size_t>(e)] : part_of(e);
    if (one) {
      total = total + part;
    } else {
      const Tensor& index = indices[static_cast<std::size_t>(e)];
      total = index_copy(total, 0, index, index_select(total, 0, index) + part);
    }
    // One expert after the other: plans of several would differ from step to step.
    if (!one || config_.stacked) total.eval();
  }
  return one ? total : total.narrow(0, 0, count);
}

Tensor Experts::operator()(const Tensor& x) const {
  const Tensor tokens = x.flatten(0, 1);
  const Routes chosen = routes(tokens);
  // Whoever follows the computation cannot follow numbers that are read on the host.
  const bool followed = is_tracked(tokens) || is_tracked(chosen.shares) || graph::is_recording();
  Tensor total = followed ? all_of_all(tokens, chosen) : each_its_own(tokens, chosen);
  if (config_.shared > 0) {
    const Tensor all = shared_(tokens);
    total = total + (config_.shared_gate ? sigmoid(shared_gate_(tokens)) * all : all);
  }
  return total.reshape(x.shape());
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
