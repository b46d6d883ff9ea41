#include "models/language/decoder.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace models {

Decoder::Decoder(DecoderConfig config) : config_(std::move(config)) {
  const ModelNames& names = config_.names;
  for (const RotaryConfig& rotary : config_.rotary) rotary_.emplace_back(rotary);
  embedding_ = tree_.matrix(names.embedding + ".weight", {config_.vocabulary, config_.hidden});
  if (config_.position_count > 0) {
    positions_ = tree_.matrix(names.positions + ".weight", {config_.position_count, config_.hidden});
  }
  if (config_.token_types > 0) {
    token_types_ = tree_.matrix(names.token_types + ".weight", {config_.token_types, config_.hidden});
  }
  embedding_norm_ = Norm(tree_, names.embedding_norm, config_.hidden, config_.norm);
  for (std::size_t i = 0; i < config_.layers.size(); ++i) {
    const LayerConfig& kind = config_.layers[i];
    const LayerNames& inner = names.layer;
    const std::string path = fmt::format("{}.{}.", names.layers, i);
    const auto norm = [&](const std::string& name) {
      return Norm(tree_, name.empty() ? "" : path + name, config_.hidden, config_.norm);
    };
    Layer& layer = layers_.emplace_back();
    layer.kind = kind;
    if (kind.first_norm) layer.attention_norm = norm(inner.attention_norm);
    layer.attention_after = norm(inner.attention_after);
    layer.feed_norm = norm(inner.feed_norm);
    layer.feed_after = norm(inner.feed_after);
    if (kind.mixer == Mixer::convolution) {
      layer.convolution = ConvolutionMixer(tree_, path + inner.convolution + ".", config_.hidden, config_.convolution);
    } else if (kind.mixer == Mixer::delta) {
      layer.delta = DeltaMixer(tree_, path + inner.delta + ".", config_.hidden, config_.delta);
    } else {
      layer.attention = Attention(tree_, path, config_, kind);
    }
    if (kind.experts) {
      layer.experts = Experts(tree_, path, config_);
    } else {
      layer.feed = FeedForward(tree_, config_.feed, path + inner.gate, path + inner.up, path + inner.down,
                               config_.hidden, config_.transposed);
    }
  }
  norm_ = Norm(tree_, names.norm, config_.hidden, config_.norm);
  if (!config_.encoder && !config_.tied) {
    head_ = Projection(tree_, names.head, config_.hidden, config_.vocabulary, config_.head_bias);
  }
  classifier_ = Classifier(tree_, config_);
}

void Decoder::divide_others(const dist::Group& group, Device device) {
  for (Layer& layer : layers_) {
    if (layer.kind.experts) layer.experts.divide(group, device);
  }
  if (config_.vocabulary < group.size()) return;
  embedding_part_ = std::make_shared<const ColumnPart>(group, detach(embedding_), device);
  take_away(embedding_, device);
}

bool Decoder::has_state() const {
  return std::any_of(layers_.begin(), layers_.end(),
                     [](const Layer& layer) { return layer.kind.mixer != Mixer::attention; });
}

std::vector<std::int64_t> Decoder::head_widths() const {
  const LatentConfig& latent = config_.attention.latent;
  if (latent.rank > 0) return {latent.plain + latent.rotated, latent.value};
  return {config_.attention.head_dim};
}

Tensor Decoder::run_state(const Layer& layer, const Tensor& x, State& state) {
  return layer.kind.mixer == Mixer::convolution ? layer.convolution(x, state) : layer.delta(x, state);
}

Tensor Decoder::embed(const Tensor& ids, std::span<const Tensor> at, const Tensor* types) const {
  Tensor x = embedding_part_ ? embedding_part_->rows(ids) : embedding(embedding_, ids);
  if (config_.embedding_scale != 1) x = x * config_.embedding_scale;
  if (config_.token_types > 0) {
    x = x + (types == nullptr ? dequantize(Tensor(token_types_).select(0, 0)) : embedding(token_types_, *types));
  }
  // Looked up, not cut out: where they stand is no part of a step's plan then.
  if (config_.position_count > 0) x = x + embedding(positions_, at.back());
  return embedding_norm_(x);
}

Tensor Decoder::run_layer(const Layer& layer, const Tensor& x, const std::vector<RopeTables>& tables,
                          const Mix& mix) const {
  const int which = layer.kind.rotary;
  const RopeTables* rotary = which < 0 ? nullptr : &tables[static_cast<std::size_t>(which)];
  const bool interleaved = which >= 0 && config_.rotary[static_cast<std::size_t>(which)].interleaved;
  const auto attend = [&](const Tensor& input) {
    return layer.attention_after(mix(layer, input, rotary, interleaved));
  };
  const auto feed = [&](const Tensor& input) {
    return layer.feed_after(layer.kind.experts ? layer.experts(input) : layer.feed(input));
  };
  const auto scaled = [&](const Tensor& part) {
    return config_.residual_scale == 1 ? part : part * config_.residual_scale;
  };
  if (config_.norm_behind) {
    const Tensor middle = layer.attention_norm(x + attend(x));
    return layer.feed_norm(middle + feed(middle));
  }
  const Tensor input = layer.attention_norm(x);
  if (config_.parallel) {
    const Tensor other = config_.names.layer.feed_norm.empty() ? input : layer.feed_norm(x);
    return x + scaled(attend(input)) + scaled(feed(other));
  }
  const Tensor middle = x + scaled(attend(input));
  return middle + scaled(feed(layer.feed_norm(middle)));
}

Tensor Decoder::logits(const Tensor& x) const {
  const auto by_embedding = [&] {
    if (embedding_part_) return embedding_part_->all_columns(linear(x, embedding_part_->weight));
    const Tensor& embedding = embedding_;
    return linear(x, embedding);
  };
  Tensor result = config_.tied ? by_embedding() : head_(x);
  if (config_.logit_scale != 1) result = result * config_.logit_scale;
  if (config_.logit_softcap > 0) result = tanh(result / config_.logit_softcap) * config_.logit_softcap;
  return result;
}

Tensor Decoder::forward(const Tensor& ids, LanguageCache* cache, CallSite site) const {
  const CallScope call("LanguageModel", site);
  if (const std::optional<Tensor> result = next_step(ids, LayeredCache::of(cache, *this))) return *result;
  const Tensor x = hidden(ids, cache, site);
  return config_.encoder ? x : logits(x);
}

Tensor Decoder::last_logits(const Tensor& ids, std::int64_t rows, LanguageCache* cache) const {
  if (ids.rank() != 2 || rows >= ids.size(1)) return forward(ids, cache, {});
  return logits(hidden(ids, cache).narrow(1, ids.size(1) - rows, rows));
}

Tensor Decoder::label_logits(const Tensor& ids, const Tensor& types) const {
  return classifier_(hidden(ids, nullptr, {}, &types));
}

Tensor Decoder::hidden(const Tensor& ids, LanguageCache* cache, CallSite site, const Tensor* types) const {
  const CallScope call("LanguageModel", site);
  if (ids.rank() != 2 || ids.size(1) == 0) {
    throw ShapeError(
        fmt::format("LanguageModel: ids have the shape {}, not [N, L] with L > 0", ids.shape().to_string()));
  }
  LayeredCache* own = LayeredCache::of(cache, *this);
  const Positions positions{own == nullptr ? 0 : own->length(), ids.size(1)};
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(positions.length));
  std::iota(numbers.begin(), numbers.end(), positions.first);
  const std::vector<Tensor> at = at_positions(numbers, ids.device());
  Tensor x = embed(ids, at, types);
  const std::vector<RopeTables> tables = tables_in(at);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    LayerMemory* past = own == nullptr ? nullptr : &own->layers[i];
    x = run_layer(layers_[i], x, tables,
                  [&](const Layer& layer, const Tensor& input, const RopeTables* rotary, bool interleaved) {
                    if (layer.kind.mixer == Mixer::attention)
                      return layer.attention(input, positions, rotary, interleaved, past);
                    State none;
                    return run_state(layer, input, past == nullptr ? none : past->state);
                  });
  }
  if (own != nullptr) own->grow(positions.length);
  return norm_(x);
}

std::vector<Tensor> Decoder::at_positions(std::span<const std::int64_t> positions, Device device) const {
  for (const std::int64_t position : positions) check_positions(position);
  std::vector<Tensor> at;
  for (const RotaryTurns& rotary : rotary_) {
    const RopeTables tables = rotary.at(positions, device);
    at.push_back(tables.cos);
    at.push_back(tables.sin);
  }
  if (config_.position_count > 0) {
    std::vector<std::int64_t> places(positions.begin(), positions.end());
    for (std::int64_t& place : places) place += config_.position_offset;
    at.push_back(Tensor::from(places, {static_cast<std::int64_t>(places.size())}, device));
  }
  return at;
}

std::vector<RopeTables> Decoder::tables_in(std::span<const Tensor> at) const {
  std::vector<RopeTables> tables;
  for (std::size_t i = 0; i < config_.rotary.size(); ++i) tables.push_back({at[2 * i], at[2 * i + 1]});
  return tables;
}

bool Decoder::repeats_steps() const {
  const auto has_more = [](const auto& projection) {
    return projection.second->down.defined() || projection.second->part != nullptr || projection.second->is_one_ranks;
  };
  return embedding_part_ == nullptr && std::none_of(projections().begin(), projections().end(), has_more);
}

std::optional<std::int64_t> Decoder::last_that_sees_all() const {
  std::optional<std::int64_t> last;
  for (const Layer& layer : layers_) {
    const std::int64_t window = layer.kind.window;
    if (window > 0) last = std::min(last.value_or(window - 1), window - 1);
  }
  return last;
}

void Decoder::check_positions(std::int64_t last) const {
  if (config_.position_count == 0 || last + config_.position_offset < config_.position_count) return;
  throw ValueError(fmt::format("LanguageModel: {} positions, but only {} were learned",
                               last + 1 + config_.position_offset, config_.position_count));
}

// input [1, N, hidden] to the same, a token of each of N texts.
Tensor Decoder::state_rows(const Layer& layer, const Tensor& input, const RowPlaces& places, std::span<Memories> held,
                           std::size_t number) {
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < places.bands.size(); ++i) {
    State& state = held[i][number].state;
    State after = state;
    results.push_back(run_state(layer, places.bands[i].of(input, 1).transpose(0, 1), after));
    places.bands[i].choose(state, after);
  }
  return (results.size() == 1 ? results.front() : cat(results, 0)).transpose(0, 1);
}

Tensor Decoder::step(const Tensor& ids, RowPlaces& places, std::span<Memories> held) const {
  const std::vector<RopeTables> tables = tables_in(places.of_model);
  Tensor x = embed(ids, places.of_model);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    x = run_layer(layers_[i], x, tables,
                  [&](const Layer& layer, const Tensor& input, const RopeTables* rotary, bool interleaved) {
                    if (layer.kind.mixer == Mixer::attention)
                      return layer.attention.rows(input, places, rotary, interleaved, held, i);
                    return state_rows(layer, input, places, held, i);
                  });
  }
  return logits(norm_(x));
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
