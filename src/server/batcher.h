// Requests that draw tokens at the same time share a pass of the model: whoever's turn it is computes a step for all
// who wait for one. Each gets the logits that it would get alone (lockstep/models/batch.h).
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/models/batch.h>
#include <lockstep/models/prefix_store.h>
#include <lockstep/numerics.h>

#include "server/http.h"

namespace lockstep {
inline namespace v0 {
namespace server {

class Batcher {
 public:
  /// Keeps at most `prefix_bytes` of what was read, for texts that begin alike.
  Batcher(const models::LanguageModel& model, Device device, Numerics numerics, std::int64_t prefix_bytes);

  /// Whether the model can do that; nothing below may be called where it cannot.
  bool works() const { return batch_.has_value(); }
  /// That the model computes in.
  Numerics numerics() const { return numerics_; }
  /// Within a turn of the server: a cache that remembers the beginning of a text, as far as it was read before.
  std::unique_ptr<models::LanguageCache> begin(const std::vector<std::int64_t>& tokens);
  /// Within a turn: what `cache` remembers of a text is kept for others.
  void keep(const std::vector<std::int64_t>& tokens, const models::LanguageCache& cache);
  /// Within a turn: takes what a text's cache remembers; returns the text's number.
  std::int64_t join(const models::LanguageCache& cache);
  /// At any time, also while others compute. `tokens` are the text.
  void leave(std::int64_t text, std::vector<std::int64_t> tokens);
  /// Outside of turns: waits for one, and for the logits behind the text's next token.
  std::vector<float> step(HttpServer& server, std::int64_t text, std::int64_t token);

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

  Numerics numerics_;
  // Touched within turns alone.
  std::optional<models::StepBatch> batch_;
  std::optional<models::PrefixStore> prefixes_;
  std::mutex mutex_;
  std::vector<Waiting*> waiting_;
  std::vector<std::pair<std::int64_t, std::vector<std::int64_t>>> left_;  // by number, with their tokens
};

}  // namespace server
}  // namespace v0
}  // namespace lockstep
