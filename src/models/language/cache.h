// What a model remembers of the tokens before, layer by layer: keys and values in one of the cache types, and states.
// The cache of one text (layered.h) and those of a batch of texts are made of these.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include <lockstep/models/language.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// Elements of a block of q8_0.
inline constexpr std::int64_t kCacheBlock = 32;

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
  /// Makes room for `count` tokens, at least.
  void reserve(std::int64_t count);
  /// Has room for exactly so many from now on.
  void resize(std::int64_t places);

  /// Those of some tokens, as they are remembered, in memory of their own.
  std::vector<Tensor> copy(Positions positions) const;
  /// Becomes those of several copies, one behind the other.
  void join(const std::vector<std::vector<Tensor>>& copies);

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

/// What one layer remembers of one text, or of several that have room for equally many tokens.
struct LayerMemory {
  HeldHeads keys, values;
  State state;
  /// Those that are there, in this order, of each row as many elements.
  std::vector<Tensor*> tensors();
  std::int64_t bytes() const;
};

/// The room that texts of a batch have: the least of 256, 512, 1,024 ... that holds `count` tokens.
std::int64_t room_for(std::int64_t count);

/// What all layers remember of one text, or of a band of texts: those of a batch that have room for equally many
/// tokens.
using Memories = std::vector<LayerMemory>;

/// One token of each text of a band: row i is its text's token at positions[i].
class BandPlaces {
 public:
  /// Rows that are not `taken` are computed, too, but their states stay. The first one is row `first` of the batch.
  BandPlaces(std::int64_t first, const std::vector<std::int64_t>& positions, const std::vector<bool>& taken,
             Device device);

  /// The band's rows of a batch's, [.., N, ..] at dimension `dim`.
  Tensor of(const Tensor& batch, int dim) const { return batch.narrow(dim, first_, index_.size(0)); }
  const Tensor& index() const { return index_; }
  /// How many are read: those up to the farthest position, in whole blocks.
  std::int64_t keys() const { return keys_; }
  /// All that tells one step from the next, beside tokens and memories.
  std::vector<Tensor> inputs() const;
  /// Which keys a row sees, bool [N, 1, 1, keys]: the last `window` ones; all for 0.
  const Tensor& visible(std::int64_t window);
  /// `state` becomes `after` in the rows that are taken.
  void choose(State& state, const State& after) const;

 private:
  std::int64_t first_ = 0;
  std::int64_t keys_ = 0;
  Tensor index_;  // [N]
  Tensor taken_;  // [N]; undefined: all
  std::map<std::int64_t, Tensor> visible_;
};

/// One token of each text of a batch.
struct RowPlaces {
  std::vector<BandPlaces> bands;  ///< one behind the other
  std::vector<Tensor> of_model;   ///< what the model makes of all positions (LayeredModel::at_positions)
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
