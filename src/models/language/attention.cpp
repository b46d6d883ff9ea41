#include "models/language/attention.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <lockstep/ops.h>

#include "graph/ops/attention_fused.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

// [N, L, count * width] to [N, count, L, width].
Tensor into_heads(const Tensor& x, std::int64_t count) {
  return x.unflatten(-1, {count, -1}).transpose(1, 2);
}

NormConfig rms_like(const NormConfig& norm) {
  NormConfig result = norm;
  result.kind = NormKind::rms;
  result.weight = true;
  result.bias = false;
  return result;
}

}  // namespace

Attention::Attention(ParameterTree& tree, const std::string& layer, const DecoderConfig& config,
                     const LayerConfig& kind)
    : config_(config.attention), window_(kind.window) {
  const LayerNames& names = config.names.layer;
  const AttentionConfig& a = config.attention;
  const auto project = [&](const std::string& name, std::int64_t in, std::int64_t out, bool bias) {
    return Projection(tree, layer + name, in, out, bias, config.transposed);
  };
  if (a.latent.rank > 0) {
    const LatentConfig& latent = a.latent;
    const std::int64_t width = a.heads * (latent.plain + latent.rotated);
    if (latent.query_rank > 0) {
      query_down_ = project("self_attn.q_a_proj", config.hidden, latent.query_rank, a.bias);
      query_down_norm_ = Norm(tree, layer + "self_attn.q_a_layernorm", latent.query_rank, rms_like(config.norm));
      query_ = project("self_attn.q_b_proj", latent.query_rank, width, false);
    } else {
      query_ = project("self_attn.q_proj", config.hidden, width, false);
    }
    compressed_ = project("self_attn.kv_a_proj_with_mqa", config.hidden, latent.rank + latent.rotated, a.bias);
    compressed_norm_ = Norm(tree, layer + "self_attn.kv_a_layernorm", latent.rank, rms_like(config.norm));
    expanded_ = project("self_attn.kv_b_proj", latent.rank, a.heads * (latent.plain + latent.value), false);
    output_ = project(names.output, a.heads * latent.value, config.hidden, a.output_bias);
    return;
  }
  const std::int64_t queries = a.heads * a.head_dim;
  const std::int64_t keys = a.kv_heads * a.head_dim;
  if (a.fusion == Fusion::none) {
    query_ = project(names.query, config.hidden, a.gated ? 2 * queries : queries, a.bias);
    key_ = project(names.key, config.hidden, keys, a.bias);
    value_ = project(names.value, config.hidden, keys, a.bias);
    if (a.paired) {
      query_.pairs(a.heads);
      key_.pairs(a.kv_heads);
    }
  } else {
    fused_ = project(names.fused, config.hidden, queries + 2 * keys, a.bias);
  }
  if (a.head_norm || a.full_norm) {
    query_norm_ = Norm(tree, layer + names.query_norm, a.full_norm ? queries : a.head_dim, rms_like(config.norm));
    key_norm_ = Norm(tree, layer + names.key_norm, a.full_norm ? keys : a.head_dim, rms_like(config.norm));
  }
  if (a.sinks) sinks_ = tree.filled(layer + "self_attn.sinks", {a.heads}, 0);
  output_ = project(names.output, queries, config.hidden, a.output_bias);
}

Attention::Heads Attention::split_fused(const Tensor& together) const {
  const std::int64_t shared = config_.heads / config_.kv_heads;
  if (config_.fusion == Fusion::concatenated) {
    const std::vector<Tensor> parts =
        into_heads(together, config_.heads + 2 * config_.kv_heads)
            .split(std::vector<std::int64_t>{config_.heads, config_.kv_heads, config_.kv_heads}, 1);
    return {parts[0], parts[1], parts[2], {}};
  }
  // [N, kv heads, L, (queries, key, value), head_dim]
  const Tensor groups = into_heads(together, config_.kv_heads).unflatten(-1, {shared + 2, config_.head_dim});
  const Tensor query = groups.narrow(3, 0, shared).transpose(2, 3).flatten(1, 2);
  return {query, groups.select(3, shared), groups.select(3, shared + 1), {}};
}

Attention::Heads Attention::heads_of(const Tensor& x) const {
  if (config_.fusion != Fusion::none) return split_fused(fused_(x));
  Tensor query = query_(x);
  Tensor key = key_(x);
  if (config_.full_norm) {
    query = query_norm_(query);
    key = key_norm_(key);
  }
  Heads heads{
      into_heads(query, config_.heads), into_heads(key, config_.kv_heads), into_heads(value_(x), config_.kv_heads), {}};
  if (config_.gated) {
    const std::vector<Tensor> both = heads.query.chunk(2, -1);
    heads.query = both[0];
    heads.gate = both[1];
  }
  return heads;
}

Attention::Heads Attention::latent_heads(const Tensor& x, const RopeTables& rotary, bool interleaved) const {
  const LatentConfig& latent = config_.latent;
  const Tensor query =
      into_heads(latent.query_rank > 0 ? query_(query_down_norm_(query_down_(x))) : query_(x), config_.heads);
  const Tensor both = compressed_(x);
  const Tensor key_position = rope(into_heads(both.narrow(-1, latent.rank, latent.rotated), 1), rotary, interleaved);
  const Tensor expanded = into_heads(expanded_(compressed_norm_(both.narrow(-1, 0, latent.rank))), config_.heads);
  const Tensor query_position = rope(query.narrow(-1, latent.plain, latent.rotated), rotary, interleaved);
  const Tensor key_plain = expanded.narrow(-1, 0, latent.plain);
  Shape shape = key_plain.shape();
  shape[3] = latent.rotated;
  return {cat({query.narrow(-1, 0, latent.plain), query_position}, -1),
          cat({key_plain, key_position.expand(shape)}, -1),
          expanded.narrow(-1, latent.plain, latent.value),
          {}};
}

// Which keys a query sees, as the mask that a sink is put in front of.
std::optional<Tensor> Attention::visible(Positions positions, std::int64_t keys, Device device) const {
  if (window_ == 0) return std::nullopt;
  const TensorOptions options{.dtype = DType::i64, .device = device};
  const Tensor rows =
      arange(static_cast<double>(positions.first), static_cast<double>(positions.first + positions.length), 1, options)
          .unsqueeze(1);
  const Tensor columns = arange(static_cast<double>(keys), options).unsqueeze(0);
  const Tensor recent = columns > rows - window_;
  return bitwise_and(recent, config_.causal ? columns <= rows : columns < rows + window_);
}

Tensor Attention::scores_and_values(const Heads& heads, Positions positions) const {
  AttentionOptions options;
  options.enable_gqa = heads.query.size(1) != heads.key.size(1);
  options.scale = config_.scale;
  options.softcap = config_.softcap;
  if (config_.sinks) return with_sinks(heads, positions, options);
  options.causal = config_.causal;
  if (config_.causal) options.first_query = positions.first;
  if (window_ > 0) options.window_left = window_ - 1;
  if (window_ > 0 && !config_.causal) options.window_right = window_ - 1;
  return scaled_dot_product_attention(heads.query, heads.key, heads.value, options);
}

// The sink is a key of zeros in front, whose score is the bias alone and whose value is nothing. `visible` is [.., L,
// keys].
Tensor Attention::attend_with_sinks(const Heads& heads, const Tensor& visible, AttentionOptions options) const {
  const double hidden = -std::numeric_limits<double>::infinity();
  Shape shape = visible.shape();
  shape[shape.rank() - 3] = config_.heads;
  const Tensor bias = where(visible, zeros({}, {.device = visible.device()}), hidden).expand(shape);
  shape[shape.rank() - 1] = 1;
  const Tensor sinks = Tensor(sinks_).reshape({config_.heads, 1, 1}).expand(shape);
  options.mask = cat({sinks, bias}, -1);
  const std::int64_t keys = visible.size(-1);
  const auto with_nothing = [&](const Tensor& x) { return pad(x.narrow(2, 0, keys), {0, 0, 1, 0}); };
  return scaled_dot_product_attention(heads.query, with_nothing(heads.key), with_nothing(heads.value), options);
}

Tensor Attention::with_sinks(const Heads& heads, Positions positions, AttentionOptions options) const {
  const std::int64_t keys = positions.end();
  std::optional<Tensor> mask = visible(positions, keys, heads.query.device());
  if (!mask) {
    const TensorOptions of_mask{.dtype = DType::boolean, .device = heads.query.device()};
    mask = tril(ones({positions.length, keys}, of_mask), positions.first);
  }
  return attend_with_sinks(heads, mask->unsqueeze(0), options);
}

Attention::Heads Attention::placed_heads(const Tensor& x, const RopeTables* rotary, bool interleaved) const {
  if (config_.latent.rank > 0) return latent_heads(x, *rotary, interleaved);
  Heads heads = heads_of(x);
  if (config_.head_norm) {
    heads.query = query_norm_(heads.query);
    heads.key = key_norm_(heads.key);
  }
  if (rotary != nullptr) {
    heads.query = rope(heads.query, *rotary, interleaved);
    heads.key = rope(heads.key, *rotary, interleaved);
  }
  return heads;
}

// result [N, heads, L, head_dim] to [N, L, hidden].
Tensor Attention::output(const Tensor& result, const Tensor& gate) const {
  return output_((gate.defined() ? result * sigmoid(gate) : result).transpose(1, 2).flatten(2, 3));
}

Tensor Attention::operator()(const Tensor& x, Positions positions, const RopeTables* rotary, bool interleaved,
                             LayerMemory* past) const {
  Heads heads = placed_heads(x, rotary, interleaved);
  if (past != nullptr) {
    past->keys.put(positions, heads.key);
    past->values.put(positions, heads.value);
    heads.key = past->keys.all();
    heads.value = past->values.all();
  }
  return output(scores_and_values(heads, positions), heads.gate);
}

Tensor Attention::attend_rows(const Heads& heads, BandPlaces& places) const {
  AttentionOptions options;
  options.enable_gqa = heads.query.size(1) != heads.key.size(1);
  options.scale = config_.scale;
  options.softcap = config_.softcap;
  if (config_.sinks) return attend_with_sinks(heads, places.visible(window_), options);
  options.mask = places.visible(window_);
  const graph::FinitePadding zeros;  // HeldHeads
  return scaled_dot_product_attention(heads.query, heads.key, heads.value, options);
}

Tensor Attention::rows(const Tensor& x, RowPlaces& places, const RopeTables* rotary, bool interleaved,
                       std::span<Memories> held, std::size_t layer) const {
  const Heads heads = placed_heads(x, rotary, interleaved);
  // [1, heads, N, head_dim] to [N, heads, 1, head_dim], and back
  const auto apart = [](const Tensor& together) { return together.permute({2, 1, 0, 3}); };
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < places.bands.size(); ++i) {
    BandPlaces& band = places.bands[i];
    LayerMemory& own = held[i][layer];
    own.keys.put_rows(band.index(), apart(band.of(heads.key, 2)));
    own.values.put_rows(band.index(), apart(band.of(heads.value, 2)));
    results.push_back(attend_rows(
        {apart(band.of(heads.query, 2)), own.keys.first(band.keys()), own.values.first(band.keys()), {}}, band));
  }
  return output(apart(results.size() == 1 ? results.front() : cat(results, 0)), heads.gate);
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
