// Attention of a language model's layer: projections, norms of heads, positions, cache, scores.
#pragma once

#include <optional>

#include "models/language/parameters.h"
#include "models/language/rotary.h"

namespace lockstep {
inline namespace v0 {
namespace models {

/// Where the rows of a call stand.
struct Positions {
  std::int64_t first = 0;   ///< Of the first query; keys start at 0.
  std::int64_t length = 0;  ///< Of the queries.
  std::int64_t end() const { return first + length; }
};

/// Keys and values of one layer, [N, kv heads, places, head_dim]; undefined while empty. Places behind the last token are
/// zeros: steps of a token differ in where they write, not in their shapes.
struct KeysAndValues {
  Tensor keys;
  Tensor values;
  /// Takes those of the tokens at `positions`, [N, kv heads, L, head_dim].
  void put(Positions positions, const Tensor& new_keys, const Tensor& new_values);
  /// Makes the places of these tokens zeros again.
  void clear(Positions positions);
};

class Attention {
 public:
  Attention() = default;
  Attention(ParameterTree& tree, const std::string& layer, const DecoderConfig& config, const LayerConfig& kind);

  /// x [N, L, hidden] to the same. `rotary` is null for layers without; with `past`, its keys come first, and it takes
  /// the new ones.
  Tensor operator()(const Tensor& x, Positions positions, const RopeTables* rotary, bool interleaved,
                    KeysAndValues* past) const;

 private:
  struct Heads {
    Tensor query;  ///< [N, heads, L, head_dim]
    Tensor key;    ///< [N, kv heads, L, head_dim]
    Tensor value;
  };
  Heads heads_of(const Tensor& x) const;
  Heads latent_heads(const Tensor& x, const RopeTables& rotary, bool interleaved) const;
  Heads split_fused(const Tensor& together) const;
  Tensor scores_and_values(const Heads& heads, Positions positions) const;
  Tensor with_sinks(const Heads& heads, Positions positions, AttentionOptions options) const;
  std::optional<Tensor> visible(Positions positions, std::int64_t keys, Device device) const;

  AttentionConfig config_;
  std::int64_t window_ = 0;
  Projection query_, key_, value_, fused_, output_;
  Norm query_norm_, key_norm_;
  nn::Parameter sinks_;
  Projection query_down_, compressed_, expanded_;
  Norm query_down_norm_, compressed_norm_;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
