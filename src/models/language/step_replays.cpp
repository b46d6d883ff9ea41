#include "models/language/step_replays.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <lockstep/numerics.h>
#include <lockstep/ops.h>

#include "core/device.h"
#include "graph/autocast.h"
#include "graph/captured.h"
#include "graph/kernel_watch.h"
#include "graph/module_watch.h"
#include "graph/node.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

// Recordings are tried so often, one after the other.
constexpr int kMostRefused = 2;

bool is_view(const Tensor& tensor) {
  return graph::form_of(graph::Access::node(tensor)->op) == graph::Form::view;
}

// The same elements, in whatever shape, of a value that is no view.
Tensor elements_of(const Tensor& ids) {
  if (!is_view(ids)) return ids;
  const graph::Reading reading = graph::reading_of(graph::Access::node(ids));
  const bool is_whole = reading.view.is_contiguous() && reading.view.offset == 0 &&
                        reading.view.shape.numel() == reading.base->shape.numel();
  return is_whole ? graph::Access::tensor(reading.base) : ids.clone();
}

bool are_tokens(const Tensor& ids, std::int64_t vocabulary) {
  const std::vector<std::int64_t> tokens = ids.to_vector<std::int64_t>();
  return std::all_of(tokens.begin(), tokens.end(), [&](std::int64_t t) { return t >= 0 && t < vocabulary; });
}

using Slots = std::vector<Tensor*>;

// What is remembered, as values that are no views.
Slots slots_of(std::span<Memories> held) {
  Slots slots;
  for (Memories& band : held) {
    for (LayerMemory& layer : band) {
      for (Tensor* part : layer.tensors()) {
        if (is_view(*part)) *part = part->clone();
        slots.push_back(part);
      }
    }
  }
  return slots;
}

std::string kind_of(const RowPlaces& places, std::span<const Tensor> inputs, const Slots& slots) {
  std::string kind;
  nn::append_kind(kind, static_cast<std::int64_t>(places.bands.size()));
  for (const BandPlaces& band : places.bands) nn::append_kind(kind, band.keys());
  nn::append_kind(kind, static_cast<std::int64_t>(current_numerics()));
  nn::append_kind(kind, graph::is_watched());  // who watches kernels sees those that every device has
  nn::append_kind(kind, static_cast<std::int64_t>(inputs.size()));
  for (const Tensor& input : inputs) nn::append_kind(kind, input);
  for (const Tensor* part : slots) nn::append_kind(kind, *part);
  return kind;
}

// Takes the memories away, so that a run may write over them, and gives back those that nothing has come for.
class TakenAway {
 public:
  explicit TakenAway(const Slots& slots) : slots_(slots) {
    for (Tensor* part : slots) memories_.push_back(std::move(*part));
  }
  ~TakenAway() {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (!slots_[i]->defined()) *slots_[i] = std::move(memories_[i]);
    }
  }
  TakenAway(const TakenAway&) = delete;
  TakenAway& operator=(const TakenAway&) = delete;
  std::span<const Tensor> memories() const { return memories_; }

 private:
  const Slots& slots_;
  std::vector<Tensor> memories_;
};

// By names in the order of the list.
nn::Replays::Map as_map(const Tensor& logits, const Slots& slots) {
  nn::Replays::Map map{{"", logits}};
  for (std::size_t i = 0; i < slots.size(); ++i) map.emplace(fmt::format("{:08}", i), *slots[i]);
  return map;
}

}  // namespace

bool StepReplays::fit(const LanguageModel& model) const {
  const Numerics numerics = current_numerics();
  const bool is_known = numerics == Numerics::exact || numerics == Numerics::q8;
  return is_known && refused_ < kMostRefused && !model.training() && !graph::is_autocasting() &&
         !graph::has_module_watch();
}

void StepReplays::find_weights(const LanguageModel& model) {
  for (const auto& [name, parameter] : model.named_parameters()) weights_.push_back(parameter);
  for (const auto& [name, buffer] : model.named_buffers()) weights_.push_back(buffer);
}

Tensor StepReplays::step(const LanguageModel& model, const std::function<Tensor(const Tensor&)>& compute,
                         const Tensor& ids, const RowPlaces& places, std::span<Memories> held) {
  std::call_once(found_, [&] { find_weights(model); });
  const Tensor tokens = elements_of(ids);
  std::vector<Tensor> inputs = places.of_model;
  for (const BandPlaces& band : places.bands) {
    for (Tensor& input : band.inputs()) inputs.push_back(std::move(input));
  }
  inputs.push_back(tokens);
  // A bad token on the host would be found when the memories are written over already.
  const bool is_plain =
      !nn::is_followed(inputs, weights_) && (!is_host(ids.device()) || are_tokens(tokens, model.vocabulary()));
  if (!is_plain) return compute(ids);
  const Slots slots = slots_of(held);
  std::string kind = kind_of(places, inputs, slots);
  {
    const TakenAway taken(slots);
    if (const auto outputs = replays_.run(weights_, kind, inputs, taken.memories())) {
      auto output = outputs->begin();
      Tensor logits = output->second;
      for (Tensor* part : slots) *part = (++output)->second;
      return logits;
    }
  }
  if (!replays_.wants(kind, recorded_)) return compute(ids);
  for (const Tensor* part : slots) inputs.push_back(*part);
  for (const Tensor& input : inputs) input.eval();
  graph::Capture capture(inputs);
  inputs.clear();
  Tensor logits = compute(tokens.reshape(ids.shape()));
  const Slots after = slots_of(held);
  const nn::Replays::Map outputs = as_map(logits, after);
  std::unique_ptr<graph::Captured> captured = capture.finish(nn::tensors_of(outputs));
  if (after.size() != slots.size()) captured = nullptr;
  refused_ = captured == nullptr ? refused_ + 1 : 0;
  if (captured != nullptr) recorded_ = true;
  replays_.keep(weights_, std::move(kind), outputs, std::move(captured));
  return logits;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
