// Attention of a language model's layer: projections, norms of heads, positions, cache, scores.
#pragma once

#include <map>
#include <optional>
#include <vector>

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

/// Keys and values of one layer, [N, kv heads, places, head_dim]; undefined while empty. Places behind the last token
/// are zeros: steps of a token differ in where they write, not in their shapes.
struct KeysAndValues {
  Tensor keys;
  Tensor values;
  /// Takes those of the tokens at `positions`, [N, kv heads, L, head_dim].
  void put(Positions positions, const Tensor& new_keys, const Tensor& new_values);
  /// Makes the places of these tokens zeros again.
  void clear(Positions positions);
  /// Makes room for `places` tokens, at least.
  void reserve(std::int64_t places);
};

/// One token of each of several texts: row i is its text's token at positions[i].
class RowPlaces {
 public:
  RowPlaces(std::vector<std::int64_t> positions, std::int64_t keys, Device device);

  const std::vector<std::int64_t>& positions() const { return positions_; }
  const Tensor& index() const { return index_; }
  /// Which keys a row sees, bool [N, 1, 1, keys]: the last `window` ones; all for 0.
  const Tensor& visible(std::int64_t window);

 private:
  std::vector<std::int64_t> positions_;
  Tensor index_;    // [N]
  Tensor columns_;  // [keys]
  std::map<std::int64_t, Tensor> visible_;
};

class Attention {
 public:
  Attention() = default;
  Attention(ParameterTree& tree, const std::string& layer, const DecoderConfig& config, const LayerConfig& kind);

  /// x [N, L, hidden] to the same. `rotary` is null for layers without; with `past`, its keys come first, and it takes
  /// the new ones.
  Tensor operator()(const Tensor& x, Positions positions, const RopeTables* rotary, bool interleaved,
                    KeysAndValues* past) const;
  /// x [1, N, hidden] to the same, a token of each of N texts, whose keys and values `held` has [N, kv heads, places,
  /// head_dim] and takes. Row by row the bits of the other form. Not for sinks.
  Tensor rows(const Tensor& x, RowPlaces& places, const RopeTables* rotary, bool interleaved,
              KeysAndValues& held) const;

 private:
  struct Heads {
    Tensor query;  ///< [N, heads, L, head_dim]
    Tensor key;    ///< [N, kv heads, L, head_dim]
    Tensor value;
  };
  Heads heads_of(const Tensor& x) const;
  Heads placed_heads(const Tensor& x, const RopeTables* rotary, bool interleaved) const;
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
