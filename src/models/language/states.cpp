#include "models/language/states.h"

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

class StateCache final : public LanguageCache {
 public:
  StateCache(const StateModel& model, std::size_t count) : owner(&model), states(count) {}
  void grow(std::int64_t tokens) { length_ += tokens; }
  std::unique_ptr<LanguageCache> clone() const override {
    auto copy = std::make_unique<StateCache>(*owner, states.size());
    copy->states = states;
    copy->length_ = length_;
    return copy;
  }

  const StateModel* owner;
  std::vector<State> states;
};

}  // namespace

std::unique_ptr<LanguageCache> StateModel::make_cache() const {
  return std::make_unique<StateCache>(*this, layers_);
}

Tensor StateModel::forward(const Tensor& ids, LanguageCache* cache, CallSite site) const {
  const CallScope call("LanguageModel", site);
  if (ids.rank() != 2 || ids.size(1) == 0) {
    throw ShapeError(
        fmt::format("LanguageModel: ids have the shape {}, not [N, L] with L > 0", ids.shape().to_string()));
  }
  auto* own = dynamic_cast<StateCache*>(cache);
  if (cache != nullptr && (own == nullptr || own->owner != this)) {
    throw ValueError("LanguageModel: the cache is another model's");
  }
  Tensor x = embed(ids);
  for (std::size_t layer = 0; layer < layers_; ++layer) {
    State none;
    x = run(layer, x, own == nullptr ? none : own->states[layer]);
  }
  if (own != nullptr) own->grow(ids.size(1));
  return logits(x);
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
