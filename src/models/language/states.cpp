#include "models/language/states.h"

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace models {
Tensor StateModel::forward(const Tensor& ids, LanguageCache* cache, CallSite site) const {
  const CallScope call("LanguageModel", site);
  if (ids.rank() != 2 || ids.size(1) == 0) {
    throw ShapeError(
        fmt::format("LanguageModel: ids have the shape {}, not [N, L] with L > 0", ids.shape().to_string()));
  }
  LayeredCache* own = LayeredCache::of(cache, *this);
  if (const std::optional<Tensor> result = next_step(ids, own)) return *result;
  Tensor x = embed(ids);
  Tensor aside;
  for (std::size_t layer = 0; layer < layers_; ++layer) {
    State none;
    x = run(layer, x, own == nullptr ? none : own->layers[layer].state, aside);
  }
  if (own != nullptr) own->grow(ids.size(1));
  return logits(x);
}

// Without keys all texts are one band.
Tensor StateModel::step(const Tensor& ids, RowPlaces& places, std::span<Memories> held) const {
  Tensor x = embed(ids.transpose(0, 1));
  Tensor aside;
  for (std::size_t layer = 0; layer < layers_; ++layer) {
    State& state = held.front()[layer].state;
    State after = state;
    x = run(layer, x, after, aside);
    places.bands.front().choose(state, after);
  }
  return logits(x).transpose(0, 1);
}

Tensor shifted(const Tensor& x, Tensor& last) {
  const std::int64_t length = x.size(1);
  const Tensor first = last.defined() ? last.unsqueeze(1) : zeros_like(x.narrow(1, 0, 1));
  const Tensor result = length == 1 ? first : cat({first, x.narrow(1, 0, length - 1)}, 1);
  last = x.select(1, length - 1);
  return result;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
