// Steps of a language model that come again: from one token to the next nothing but positions and elements differ, so
// the kernels of a step that was recorded run without nodes. Positions are elements, too (RowPlaces); keys are counted
// in whole blocks, so a recording lasts for as many tokens as a block has places.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include <lockstep/models/language.h>
#include <lockstep/nn/cell.h>

#include "models/language/cache.h"
#include "nn/replays.h"

namespace lockstep {
inline namespace v0 {
namespace models {

class StepReplays {
 public:
  /// Whether steps of the model may come again: no gradients, arithmetic whose bits do not depend on how many hidden
  /// keys are read, and nothing in a step that needs the host.
  bool fit(const LanguageModel& model) const;
  /// The logits compute(ids), which also changes `held`, of a model that fits. Memories that nobody else holds are
  /// written over.
  Tensor step(const LanguageModel& model, const std::function<Tensor(const Tensor&)>& compute, const Tensor& ids,
              const RowPlaces& places, std::span<Memories> held);

 private:
  void find_weights(const LanguageModel& model);

  std::once_flag found_;
  std::vector<Cell> weights_;
  nn::Replays replays_;
  std::atomic<int> refused_{0};  ///< recordings that cannot come again, since the last that can
  /// There was one that can. The next, of more tokens, need not wait for what is made of weights: to run nodes takes
  /// many times as long as to run a recording, and each run of them makes plans that are never used again.
  std::atomic<bool> recorded_{false};
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
