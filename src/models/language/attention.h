// Attention of a language model's layer: projections, norms of heads, positions, cache, scores.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "models/language/cache.h"
#include "models/language/parameters.h"
#include "models/language/rotary.h"

namespace lockstep {
inline namespace v0 {
namespace models {

class Attention {
 public:
  Attention() = default;
  Attention(ParameterTree& tree, const std::string& layer, const DecoderConfig& config, const LayerConfig& kind);

  /// x [N, L, hidden] to the same. `rotary` is null for layers without; with `past`, its keys come first, and it takes
  /// the new ones.
  Tensor operator()(const Tensor& x, Positions positions, const RopeTables* rotary, bool interleaved,
                    LayerMemory* past) const;
  /// x [1, N, hidden] to the same, a token of each of N texts, whose keys and values layer `layer` of `held` has and
  /// takes, band by band. Row by row the bits of the other form.
  Tensor rows(const Tensor& x, RowPlaces& places, const RopeTables* rotary, bool interleaved, std::span<Memories> held,
              std::size_t layer) const;

 private:
  struct Heads {
    Tensor query;  ///< [N, heads, L, head_dim]
    Tensor key;    ///< [N, kv heads, L, head_dim]
    Tensor value;
    Tensor gate;  ///< Of the result, [N, heads, L, head_dim]; undefined: none
  };
  Heads heads_of(const Tensor& x) const;
  Heads placed_heads(const Tensor& x, const RopeTables* rotary, bool interleaved) const;
  Heads latent_heads(const Tensor& x, const RopeTables& rotary, bool interleaved) const;
  Heads split_fused(const Tensor& together) const;
  Tensor attend_rows(const Heads& heads, BandPlaces& places) const;
  Tensor output(const Tensor& result, const Tensor& gate) const;
  Tensor scores_and_values(const Heads& heads, Positions positions) const;
  Tensor with_sinks(const Heads& heads, Positions positions, AttentionOptions options) const;
  Tensor attend_with_sinks(const Heads& heads, const Tensor& visible, AttentionOptions options) const;
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
