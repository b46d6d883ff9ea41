// The transformer that a DecoderConfig describes: decoders, and encoders of the same parts.
#pragma once

#include <vector>

#include <lockstep/models/language.h>

#include "models/language/attention.h"
#include "models/language/feed_forward.h"

namespace lockstep {
inline namespace v0 {
namespace models {

class Decoder final : public LanguageModel {
 public:
  explicit Decoder(DecoderConfig config);

  Tensor forward(const Tensor& ids, LanguageCache* cache, CallSite site) const override;
  /// What the logits are made of: the last hidden states [N, L, hidden].
  Tensor hidden(const Tensor& ids, LanguageCache* cache = nullptr, CallSite site = {}) const;
  std::unique_ptr<LanguageCache> make_cache() const override;
  bool encoder() const override { return config_.encoder; }
  const std::string& family() const override { return config_.family; }
  std::int64_t vocabulary() const override { return config_.vocabulary; }
  std::int64_t context() const override { return config_.context; }

 private:
  struct Layer {
    LayerConfig kind;
    Norm attention_norm, attention_after, feed_norm, feed_after;
    Attention attention;
    FeedForward feed;
    Experts experts;
  };

  Tensor embed(const Tensor& ids, Positions positions) const;
  Tensor run_layer(const Layer& layer, const Tensor& x, Positions positions, const std::vector<RopeTables>& tables,
                   KeysAndValues* past) const;
  Tensor logits(const Tensor& x) const;

  DecoderConfig config_;
  ParameterTree tree_{*this};
  nn::Parameter embedding_, positions_, token_types_;
  Norm embedding_norm_, norm_;
  std::vector<Layer> layers_;
  Projection head_;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
