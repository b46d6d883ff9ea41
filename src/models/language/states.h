// Models with a state instead of keys and values: RWKV 4, 5 and 7, Mamba 1 and 2. What happens at one position is a
// function of the position's inputs and the state before it, so that a cache is nothing but the state.
#pragma once

#include "io/json_fields.h"
#include "models/language/layered.h"
#include "models/language/parameters.h"

namespace lockstep {
inline namespace v0 {
namespace models {

/// A stack of layers with states.
class StateModel : public LayeredModel {
 public:
  Tensor forward(const Tensor& ids, LanguageCache* cache, CallSite site) const final;
  Tensor step(const Tensor& ids, RowPlaces& places, std::span<Memories> held) const final;
  std::size_t layer_count() const final { return layers_; }
  bool has_state() const final { return true; }
  const std::string& family() const final { return family_; }
  std::int64_t vocabulary() const final { return vocabulary_; }
  std::int64_t context() const final { return 0; }

 protected:
  StateModel(std::string family, std::int64_t vocabulary, std::size_t layers)
      : family_(std::move(family)), vocabulary_(vocabulary), layers_(layers) {}

  /// [N, L] to [N, L, hidden].
  virtual Tensor embed(const Tensor& ids) const = 0;
  /// x [N, L, hidden] to the same; `state` is that before the first position, and becomes that behind the last.
  /// `aside` is what layers of the same pass leave for those behind them, undefined for the first.
  virtual Tensor run(std::size_t layer, const Tensor& x, State& state, Tensor& aside) const = 0;
  virtual Tensor logits(const Tensor& x) const = 0;
  std::vector<std::int64_t> head_widths() const final { return {}; }

 private:
  std::string family_;
  std::int64_t vocabulary_;
  std::size_t layers_;
};

/// x [N, L, C] one position later; `last` [N, C] stands in front (zeros if undefined) and becomes the last position.
Tensor shifted(const Tensor& x, Tensor& last);

std::unique_ptr<LanguageModel> create_rwkv4(const io::JsonFields& config);
std::unique_ptr<LanguageModel> create_mamba(const io::JsonFields& config);
std::unique_ptr<LanguageModel> create_mamba2(const io::JsonFields& config);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
