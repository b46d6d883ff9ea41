// The transformer that a DecoderConfig describes: decoders, and encoders of the same parts.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "models/language/attention.h"
#include "models/language/classifier.h"
#include "models/language/feed_forward.h"
#include "models/language/layered.h"
#include "models/language/mixers.h"

namespace lockstep {
inline namespace v0 {
namespace models {

class Decoder final : public LayeredModel, public HasProjections {
 public:
  explicit Decoder(DecoderConfig config);

  Tensor forward(const Tensor& ids, LanguageCache* cache, CallSite site) const override;
  /// What the logits are made of: the last hidden states [N, L, hidden].
  /// `types`: the types of the tokens, shaped as ids, where the model knows such; null: all are of type 0.
  Tensor hidden(const Tensor& ids, LanguageCache* cache = nullptr, CallSite site = {},
                const Tensor* types = nullptr) const;
  /// Logits [N, labels] of texts, as `hidden` takes them; for models with a classifier (config().classifier).
  Tensor label_logits(const Tensor& ids, const Tensor& types) const;
  Tensor step(const Tensor& ids, RowPlaces& places, std::span<Memories> held) const override;
  Tensor last_logits(const Tensor& ids, std::int64_t rows, LanguageCache* cache) const override;
  std::size_t layer_count() const override { return layers_.size(); }
  bool has_state() const override;
  std::vector<Tensor> at_positions(std::span<const std::int64_t> positions, Device device) const override;
  bool repeats_steps() const override;
  bool encoder() const override { return config_.encoder; }
  const std::string& family() const override { return config_.family; }
  std::int64_t vocabulary() const override { return config_.vocabulary; }
  std::int64_t context() const override { return config_.context; }
  const Projections& projections() const override { return tree_.projections(); }
  const DecoderConfig& config() const override { return config_; }
  void divide_others(const dist::Group& group, Device device) override;

 protected:
  std::vector<std::int64_t> head_widths() const override;
  std::optional<std::int64_t> last_that_sees_all() const override;

 private:
  struct Layer {
    LayerConfig kind;
    Norm attention_norm, attention_after, feed_norm, feed_after;
    Attention attention;
    ConvolutionMixer convolution;
    DeltaMixer delta;
    FeedForward feed;
    Experts experts;
  };

  /// Attention of a layer, or what it has instead, however its memory is kept.
  using Mix = std::function<Tensor(const Layer&, const Tensor& x, const RopeTables* rotary, bool interleaved)>;

  /// `at`: from at_positions.
  Tensor embed(const Tensor& ids, std::span<const Tensor> at, const Tensor* types = nullptr) const;
  Tensor run_layer(const Layer& layer, const Tensor& x, const std::vector<RopeTables>& tables, const Mix& mix) const;
  static Tensor run_state(const Layer& layer, const Tensor& x, State& state);
  static Tensor state_rows(const Layer& layer, const Tensor& input, const RowPlaces& places, std::span<Memories> held,
                           std::size_t number);
  std::vector<RopeTables> tables_in(std::span<const Tensor> at) const;
  void check_positions(std::int64_t last) const;
  Tensor logits(const Tensor& x) const;

  DecoderConfig config_;
  ParameterTree tree_{*this};
  nn::Parameter embedding_, positions_, token_types_;
  std::shared_ptr<const ColumnPart> embedding_part_;  ///< null: the whole is here
  Norm embedding_norm_, norm_;
  std::vector<RotaryTurns> rotary_;  ///< as the config has them
  std::vector<Layer> layers_;
  Projection head_;
  Classifier classifier_;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
