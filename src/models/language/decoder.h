// The transformer that a DecoderConfig describes: decoders, and encoders of the same parts.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/models/language.h>

#include "models/language/attention.h"
#include "models/language/feed_forward.h"

namespace lockstep {
inline namespace v0 {
namespace models {

class Decoder final : public LanguageModel, public HasProjections {
 public:
  explicit Decoder(DecoderConfig config);

  Tensor forward(const Tensor& ids, LanguageCache* cache, CallSite site) const override;
  /// What the logits are made of: the last hidden states [N, L, hidden].
  Tensor hidden(const Tensor& ids, LanguageCache* cache = nullptr, CallSite site = {}) const;
  /// Logits [1, N, vocabulary] of the tokens ids [1, N] of N texts, whose keys and values `held` has, a layer each.
  Tensor step(const Tensor& ids, RowPlaces& places, std::vector<KeysAndValues>& held) const;
  /// Whether there is step().
  bool steps_rows() const { return !config_.encoder && !config_.attention.sinks; }
  std::unique_ptr<LanguageCache> make_cache() const override;
  bool encoder() const override { return config_.encoder; }
  const std::string& family() const override { return config_.family; }
  std::int64_t vocabulary() const override { return config_.vocabulary; }
  std::int64_t context() const override { return config_.context; }
  const Projections& projections() const override { return tree_.projections(); }
  const std::string& head_path() const override { return config_.names.head; }

 private:
  struct Layer {
    LayerConfig kind;
    Norm attention_norm, attention_after, feed_norm, feed_after;
    Attention attention;
    FeedForward feed;
    Experts experts;
  };

  /// Attention of a layer, however its keys are kept.
  using Attend = std::function<Tensor(const Attention&, const Tensor& x, const RopeTables* rotary, bool interleaved)>;

  Tensor embed(const Tensor& ids, std::span<const std::int64_t> positions) const;
  Tensor run_layer(const Layer& layer, const Tensor& x, const std::vector<RopeTables>& tables,
                   const Attend& attend) const;
  std::vector<RopeTables> tables_of(std::span<const std::int64_t> positions, Device device) const;
  void check_positions(std::int64_t last) const;
  Tensor logits(const Tensor& x) const;

  DecoderConfig config_;
  ParameterTree tree_{*this};
  nn::Parameter embedding_, positions_, token_types_;
  Norm embedding_norm_, norm_;
  std::vector<Layer> layers_;
  Projection head_;
};

class DecoderCache final : public LanguageCache {
 public:
  DecoderCache(const Decoder& model, std::size_t count) : owner(&model), layers(count) {}
  void grow(std::int64_t tokens) { length_ += tokens; }
  bool truncates() const override { return true; }
  void truncate(std::int64_t length) override {
    if (length < 0 || length > length_) LanguageCache::truncate(length);
    for (KeysAndValues& layer : layers) layer.clear({length, length_ - length});
    length_ = length;
  }
  std::unique_ptr<LanguageCache> clone() const override {
    auto copy = std::make_unique<DecoderCache>(*owner, layers.size());
    copy->layers = layers;
    copy->length_ = length_;
    return copy;
  }

  const Decoder* owner;
  std::vector<KeysAndValues> layers;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
