// Requests that draw tokens at the same time share a pass of the model: whoever's turn it is computes a step for all
// who wait for one. Each gets the logits that it would get alone (lockstep/models/batch.h).
#pragma once

#include <cstdint>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "server/http.h"
#include "server/model_steps.h"

namespace lockstep {
inline namespace v0 {
namespace server {

class Batcher {
 public:
  explicit Batcher(ModelSteps& steps) : steps_(&steps) {}

  /// Within a turn of the server.
  ModelSteps::Begun begin(const std::vector<std::int64_t>& prompt, bool afresh);
  /// Within a turn: reads so many further tokens of the prompt; the logits behind the last of them, or each.
  std::vector<std::vector<float>> read(std::int64_t text, std::int64_t count, ModelSteps::Behind behind);
  /// Whether a text can be copied, and within a turn: a copy of one whose prompt is read.
  bool forks() const { return steps_->forks(); }
  std::int64_t fork(std::int64_t text);
  /// At any time, also while others compute.
  void leave(std::int64_t text);
  /// Outside of turns: waits for one, and for the logits behind the next tokens of some texts, (text, token).
  std::vector<std::vector<float>> step(HttpServer& server,
                                       const std::vector<std::pair<std::int64_t, std::int64_t>>& tokens);

 private:
  struct Waiting {
    std::int64_t text = 0;
    std::int64_t token = 0;
    bool done = false;
    std::vector<float> logits;
    std::exception_ptr error;
  };
  void run();
  void forget_those_that_left();

  ModelSteps* steps_;  // touched within turns alone
  std::mutex mutex_;
  std::vector<Waiting*> waiting_;
  std::vector<std::int64_t> left_;
};

}  // namespace server
}  // namespace v0
}  // namespace lockstep
