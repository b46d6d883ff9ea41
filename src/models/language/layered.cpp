#include "models/language/layered.h"

#include <array>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "models/language/step_replays.h"

namespace lockstep {
inline namespace v0 {
namespace models {

LayeredModel::LayeredModel() : replays_(std::make_unique<StepReplays>()) {}
LayeredModel::~LayeredModel() = default;

std::vector<Tensor> LayeredModel::at_positions(std::span<const std::int64_t>, Device) const {
  return {};
}

Tensor LayeredModel::repeated_step(const Tensor& ids, RowPlaces& places, std::span<Memories> held) const {
  const auto compute = [&](const Tensor& tokens) { return step(tokens, places, held); };
  if (!repeats_steps() || !replays_->fit(*this)) return compute(ids);
  return replays_->step(*this, compute, ids, places, held);
}

std::optional<Tensor> LayeredModel::next_step(const Tensor& ids, LayeredCache* cache) const {
  if (cache == nullptr || cache->length() == 0 || ids.shape() != Shape{1, 1} || cache->rows() != 1) return std::nullopt;
  const std::int64_t position = cache->length();
  if (position > last_that_sees_all().value_or(position) || !repeats_steps() || !replays_->fit(*this)) {
    return std::nullopt;
  }
  RowPlaces places{{BandPlaces(0, {position}, {true}, ids.device())}, at_positions(std::array{position}, ids.device())};
  for (LayerMemory& layer : cache->layers) {
    layer.keys.reserve(position + 1);
    layer.values.reserve(position + 1);
  }
  Tensor logits = repeated_step(ids, places, {&cache->layers, 1});
  cache->grow(1);
  return logits;
}

std::unique_ptr<LanguageCache> LayeredModel::make_cache() const {
  if (encoder()) {
    throw ValueError(
        fmt::format("{} gives hidden states here: it foretells no text, and there is nothing to cache", family()));
  }
  return std::make_unique<LayeredCache>(*this);
}

void LayeredModel::set_cache_type(CacheType type) {
  const std::vector<std::int64_t> widths = head_widths();
  if (widths.empty()) LanguageModel::set_cache_type(type);
  for (const std::int64_t width : widths) {
    if (type != CacheType::q8_0 || width % kCacheBlock == 0) continue;
    throw ValueError(
        fmt::format("{}: heads of {} elements are no whole blocks of {}, as a cache of q8_0 has them\n"
                    "  fix: f16 or bf16",
                    family(), width, kCacheBlock));
  }
  type_ = type;
}

LayeredCache::LayeredCache(const LayeredModel& model)
    : owner(&model),
      layers(model.layer_count(), LayerMemory{HeldHeads(model.cache_type()), HeldHeads(model.cache_type()), {}}) {}

std::int64_t LayeredCache::rows() const {
  for (const LayerMemory& layer : layers) {
    if (layer.keys.defined()) return layer.keys.rows();
    for (const Tensor& part : layer.state) {
      if (part.defined()) return part.size(0);
    }
  }
  throw ValueError("LanguageCache: nothing is remembered");
}

void LayeredCache::truncate(std::int64_t length) {
  if (!truncates() || length < 0 || length > length_) LanguageCache::truncate(length);
  for (LayerMemory& layer : layers) {
    layer.keys.clear({length, length_ - length});
    layer.values.clear({length, length_ - length});
  }
  length_ = length;
}

std::unique_ptr<LanguageCache> LayeredCache::clone() const {
  auto copy = std::make_unique<LayeredCache>(*owner);
  copy->layers = layers;
  copy->length_ = length_;
  return copy;
}

LayeredCache* LayeredCache::of(LanguageCache* cache, const LanguageModel& model) {
  auto* own = dynamic_cast<LayeredCache*>(cache);
  if (cache != nullptr && (own == nullptr || own->owner != &model)) {
    throw ValueError("LanguageModel: the cache is another model's");
  }
  return own;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
