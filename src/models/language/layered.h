// A language model of layers that remember, and what one text's cache is: the memories of all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/models/language.h>

#include "models/language/cache.h"

namespace lockstep {
inline namespace v0 {
namespace models {

class LayeredCache;
class StepReplays;

/// A language model of layers that remember.
class LayeredModel : public LanguageModel {
 public:
  LayeredModel();
  ~LayeredModel() override;
  std::unique_ptr<LanguageCache> make_cache() const final;
  CacheType cache_type() const final { return type_; }
  void set_cache_type(CacheType type) final;

  /// Logits [1, N, vocabulary] of the tokens ids [1, N] of N texts, of which `held` remembers, band by band and layer
  /// by layer, a row each. Row by row the bits of forward.
  virtual Tensor step(const Tensor& ids, RowPlaces& places, std::span<Memories> held) const = 0;
  /// The same, without nodes if such a step was recorded before (step_replays.h).
  Tensor repeated_step(const Tensor& ids, RowPlaces& places, std::span<Memories> held) const;
  /// forward's logits of the last `rows` tokens of each row: the head is as much work as several layers.
  virtual Tensor last_logits(const Tensor& ids, std::int64_t rows, LanguageCache* cache) const {
    return forward(ids, cache, {}).narrow(1, ids.size(1) - rows, rows);
  }
  /// What steps at these positions read: tables, indices; one row for each. ValueError for positions that the model
  /// does not have.
  virtual std::vector<Tensor> at_positions(std::span<const std::int64_t> positions, Device device) const;
  /// Whether steps are made of the model's own parameters and buffers alone.
  virtual bool repeats_steps() const { return true; }
  virtual std::size_t layer_count() const = 0;
  /// Whether some layer has a state, which cannot go back to an earlier token.
  virtual bool has_state() const = 0;

 protected:
  /// The numbers of a key's and of a value's elements that one head has; empty where there are none.
  virtual std::vector<std::int64_t> head_widths() const = 0;
  /// The last position at which a token sees all keys before it; none: all do.
  virtual std::optional<std::int64_t> last_that_sees_all() const { return std::nullopt; }
  /// One token more, ids [1, 1], as a step that may come again; nothing where forward has to be computed otherwise.
  std::optional<Tensor> next_step(const Tensor& ids, LayeredCache* cache) const;

 private:
  std::unique_ptr<StepReplays> replays_;
  CacheType type_ = CacheType::f32;
};

class LayeredCache final : public LanguageCache {
 public:
  explicit LayeredCache(const LayeredModel& model);
  void grow(std::int64_t tokens) { length_ += tokens; }
  /// Texts that are remembered side by side. Not for an empty one.
  std::int64_t rows() const;
  bool truncates() const override { return !owner->has_state(); }
  void truncate(std::int64_t length) override;
  std::unique_ptr<LanguageCache> clone() const override;
  /// This one, if it is `model`'s. ValueError for another model's; null for null.
  static LayeredCache* of(LanguageCache* cache, const LanguageModel& model);

  const LayeredModel* owner;
  Memories layers;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
