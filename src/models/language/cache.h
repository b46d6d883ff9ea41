// What a model remembers of the tokens before, layer by layer: keys and values in one of the cache types, and states.
// The cache of one text and those of a batch of texts are made of these.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/models/language.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// Where the rows of a call stand.
struct Positions {
  std::int64_t first = 0;   ///< Of the first query; keys start at 0.
  std::int64_t length = 0;  ///< Of the queries.
  std::int64_t end() const { return first + length; }
};

/// Keys, or values, of one layer: [N, heads, places, width] in a cache type; empty at first. Places behind the last
/// token are zeros: steps of a token differ in where they write, not in their shapes. Memory grows by half, in whole
/// steps of 256 places.
class HeldHeads {
 public:
  explicit HeldHeads(CacheType type = CacheType::f32) : type_(type) {}

  bool defined() const { return !parts_.empty(); }
  std::int64_t rows() const { return parts_.front().size(0); }
  std::int64_t places() const { return parts_.front().size(2); }
  std::int64_t bytes() const;
  /// As they are remembered, in f32; the first `count` ones.
  Tensor all() const { return first(places()); }
  Tensor first(std::int64_t count) const;
  /// What they lie in: another token changes elements alone.
  std::vector<Tensor>& parts() { return parts_; }

  /// Takes those of the tokens at `positions`, [N, heads, L, width].
  void put(Positions positions, const Tensor& more);
  /// Takes one token of each row, [N, heads, 1, width], at the places that `index` [N] names.
  void put_rows(const Tensor& index, const Tensor& more);
  /// Makes the places of these tokens zeros again.
  void clear(Positions positions);
  /// Makes room for `places` tokens, at least.
  void reserve(std::int64_t places);

  /// Those of some tokens, as they are remembered, in memory of their own.
  std::vector<Tensor> copy(Positions positions) const;
  /// Becomes those of several copies, one behind the other.
  void join(const std::vector<std::vector<Tensor>>& copies);

  /// Those of the rows of `more`, which has as many places, behind the own ones.
  void append_rows(const HeldHeads& more);
  /// The row of `one`, which has as many places, instead of an own one.
  void set_row(std::int64_t row, const HeldHeads& one);
  void keep_rows(const std::vector<std::int64_t>& rows);
  HeldHeads row(std::int64_t row) const;
  void eval();

 private:
  std::vector<Tensor> encoded(const Tensor& more) const;

  CacheType type_;
  std::vector<Tensor> parts_;  // f32, f16 or bf16; of q8_0 codes, and a scale for each 32
};

/// Some rows of a tensor, in this order.
Tensor rows_of(const Tensor& all, const std::vector<std::int64_t>& rows);

/// The tensors that a layer with a state remembers; which ones is the model's affair. Empty at the beginning.
using State = std::vector<Tensor>;

/// What one layer remembers.
struct LayerMemory {
  HeldHeads keys, values;
  State state;
};

class LayeredModel;
class StepReplays;

/// One token of each of several texts: row i is its text's token at positions[i].
class RowPlaces {
 public:
  /// Rows that are not `taken` are computed, too, but their states stay. Throws as LayeredModel::at_positions.
  RowPlaces(const LayeredModel& model, const std::vector<std::int64_t>& positions, const std::vector<bool>& taken,
            Device device);

  const Tensor& index() const { return index_; }
  /// How many are read: those up to the farthest position, in whole blocks.
  std::int64_t keys() const { return keys_; }
  /// What the model has made of the positions.
  std::span<const Tensor> of_model() const { return of_model_; }
  /// All that tells one step from the next, beside tokens and memories.
  std::vector<Tensor> inputs() const;
  /// Which keys a row sees, bool [N, 1, 1, keys]: the last `window` ones; all for 0.
  const Tensor& visible(std::int64_t window);
  /// `state` becomes `after` in the rows that are taken.
  void choose(State& state, const State& after) const;

 private:
  std::int64_t keys_ = 0;
  std::vector<Tensor> of_model_;
  Tensor index_;    // [N]
  Tensor taken_;    // [N]; undefined: all
  std::map<std::int64_t, Tensor> visible_;
};

class LayeredCache;

/// A language model of layers that remember.
class LayeredModel : public LanguageModel {
 public:
  LayeredModel();
  ~LayeredModel() override;
  std::unique_ptr<LanguageCache> make_cache() const final;
  CacheType cache_type() const final { return type_; }
  void set_cache_type(CacheType type) final;

  /// Logits [1, N, vocabulary] of the tokens ids [1, N] of N texts, of which `held` remembers, layer by layer, a row
  /// each. Row by row the bits of forward.
  virtual Tensor step(const Tensor& ids, RowPlaces& places, std::vector<LayerMemory>& held) const = 0;
  /// The same, without nodes if such a step was recorded before (step_replays.h).
  Tensor repeated_step(const Tensor& ids, RowPlaces& places, std::vector<LayerMemory>& held) const;
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
  std::vector<LayerMemory> layers;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
